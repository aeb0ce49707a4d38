"""The official conformance suite, and the npm packages that it and other tests need."""
