"""A package, unlike the other folders, so that its fixtures end with its last test.

While Playwright's blocking interface is open, its thread counts as running an event loop, and tests that are coroutines
could not start theirs.
"""
