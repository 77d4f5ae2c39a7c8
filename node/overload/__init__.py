"""Admission control: how many requests a process works on at a time (`admission`), and where it refuses the others
(`intake`)."""
