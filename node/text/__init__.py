"""Text: whether it is English, what of it may be shown, its search terms, its embedding. Each module is imported by its
own name, so that a process loads cld3 (`verdict`) or torch (`embed`) only if it needs them."""
