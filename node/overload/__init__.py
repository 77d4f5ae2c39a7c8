"""Admission control: how many requests are worked on at once, and the place in Granian where the rest are refused."""
