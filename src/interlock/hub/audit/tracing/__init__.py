"""OpenTelemetry spans: one for each call as its client sees it, one for the part at the server."""
