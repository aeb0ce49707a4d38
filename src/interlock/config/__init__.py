"""Reads the configuration into frozen values. Each problem names its file, its line and how to fix it."""

from __future__ import annotations

from .confirmations import Confirmations, Planned, Unconfirmed
from .home import home_folder, user_config
from .load import Loaded, load, load_again
from .problems import Problem
from .settings import Agent, Config, Hub, Limits, Origin, Profile, Restart, Server, Timeouts, Tools, Validation

__all__ = [
    "Agent",
    "Config",
    "Confirmations",
    "Hub",
    "Limits",
    "Loaded",
    "Origin",
    "Planned",
    "Problem",
    "Profile",
    "Restart",
    "Server",
    "Timeouts",
    "Tools",
    "Unconfirmed",
    "Validation",
    "home_folder",
    "load",
    "load_again",
    "user_config",
]
