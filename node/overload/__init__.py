"""Admission control: how many requests a process works on at a time (`admission`), and how it refuses others
(`intake`)."""
