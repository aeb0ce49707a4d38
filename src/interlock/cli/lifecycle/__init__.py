"""Commands that start and stop the hub and its servers, and show how they do: `up`, `status`, `restart`, `doctor` …"""
