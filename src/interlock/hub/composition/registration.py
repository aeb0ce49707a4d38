"""Builds the registration of servers while the hub runs: their entries, their packages, and the methods for both."""

from __future__ import annotations

from interlock.hub.catalog.views import Catalog
from interlock.hub.composition.approvals import ApprovalParts
from interlock.hub.composition.authentication import AuthenticationParts
from interlock.hub.foundation import Foundation
from interlock.hub.handlers.discovery_methods import DiscoveryMethods
from interlock.hub.upstreams.registration.packages import RegisteredPackages
from interlock.hub.upstreams.registration.registrations import Registrations
from interlock.hub.upstreams.upstreams import Upstreams


class RegistrationParts:
    """Everything about servers that no configuration file names."""

    def __init__(
        self,
        foundation: Foundation,
        authentication: AuthenticationParts,
        approvals: ApprovalParts,
        catalog: Catalog,
        upstreams: Upstreams,
    ) -> None:
        self.packages = RegisteredPackages(foundation.home, foundation.log)
        self.registrations = Registrations(
            approvals.inbox, authentication.access, foundation.journal, lambda: foundation.config, foundation.home
        )
        self.methods = DiscoveryMethods(
            self.registrations,
            upstreams,
            catalog,
            authentication.access,
            approvals.server_policies,
            foundation.journal,
            lambda: foundation.config,
            self.packages,
        )
