"""OpenTelemetry spans: one for each call as its client sees it, one below it for the way to the server and back.

Chosen when the hub is put together: without an endpoint nothing here is loaded, and no call passes through it.
"""
