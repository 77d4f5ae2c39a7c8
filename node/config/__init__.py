"""The settings of a node: which there are (`settings`), how they are read (`values`), and from where (`sources`)."""

from node.config.current import CurrentSettings
from node.config.loading import load, texts, variable
from node.config.settings import SECRETS, Limits, Settings
from node.config.values import NO_LIMIT, AllowedOrigins, ConfigError, Limit, Networks, Proxies, Schedule

__all__ = [
    "NO_LIMIT",
    "SECRETS",
    "AllowedOrigins",
    "ConfigError",
    "CurrentSettings",
    "Limit",
    "Limits",
    "Networks",
    "Proxies",
    "Schedule",
    "Settings",
    "load",
    "texts",
    "variable",
]
