"""The settings of a node: their list (`settings`), their types (`values`), and where they come from (`sources`)."""

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
