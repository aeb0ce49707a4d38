"""One text in each format that JSON Schema names, for suggestions and examples."""

from __future__ import annotations

IN_FORMAT = {
    "date-time": "2026-01-31T12:00:00Z",
    "date": "2026-01-31",
    "time": "12:00:00Z",
    "duration": "PT1H30M",
    "email": "name@example.com",
    "idn-email": "name@example.com",
    "uuid": "6f1c1a52-0d5a-4b0e-9c3f-2f6d1f6f9f10",
    "uri": "https://example.com/",
    "iri": "https://example.com/",
    "uri-reference": "/path",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.com",
    "regex": "^a$",
    "json-pointer": "/a",
    "base64": "aGVsbG8=",
}
