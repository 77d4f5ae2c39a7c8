"""Retention: the worker compresses or removes old data."""
