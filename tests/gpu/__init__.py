"""The goals of tests/late_device on a real GPU: `make test-gpu`. Nobody has run them so far."""
