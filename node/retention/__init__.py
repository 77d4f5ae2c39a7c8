"""What ends when: old data is compacted or removed, by the worker."""
