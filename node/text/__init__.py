"""Text: is it English (`english`, `payload`), and what does it mean (`embed`, in the worker only).

This module re-exports the English gate, the part the web processes use. `embed` is imported by its
own name, because it loads torch.
"""

from node.text.english import is_english, preload
from node.text.payload import payload_is_english, text_payload_is_english

__all__ = ["is_english", "payload_is_english", "preload", "text_payload_is_english"]
