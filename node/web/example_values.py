"""Ids, times and tokens for examples. None of them is real."""

ID = "019a8f5e-7c1d-7a3b-9c52-4e1f6d2b8a07"
PEER_ID = "019a8f5f-03b9-7c64-8d11-b5a2c9e07f13"
TIME = "2026-11-21T08:00:00.123Z"
LATER = "2026-11-21T08:15:00.123Z"
TOKEN = "bXk1dGhpcy1pcy1hbi1leGFtcGxlLXRva2Vu"  # noqa: S105 - an example, no secret
