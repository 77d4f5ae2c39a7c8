"""A package, unlike the other folders, so that its fixtures end with its last test.

While Playwright's blocking interface is open, the thread counts as running an event loop, and the
tests that are coroutines could not start theirs.
"""
