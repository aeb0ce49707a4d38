"""Every operation on a running hub, in one table.

The control socket, the admin API with its OpenAPI document, and the reference in `docs/admin-api.md` are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from interlock.hub.admin.approvals import ApprovalOperations as Approvals
from interlock.hub.admin.audit_log import AuditLogOperations as AuditLog
from interlock.hub.admin.channels import ChannelOperations as Channels
from interlock.hub.admin.configuration import ConfigurationOperations as Configuration
from interlock.hub.admin.console import ConsoleOperations as Console
from interlock.hub.admin.conversations import ConversationOperations as Conversations
from interlock.hub.admin.features import FeatureOperations as Features
from interlock.hub.admin.health import HealthOperations as Health
from interlock.hub.admin.keys import KeyOperations as Keys
from interlock.hub.admin.logins import LoginOperations as Logins
from interlock.hub.admin.operation import ACTS, OWNER, READ, WRITE, Operation, Proof, row
from interlock.hub.admin.permissions import PermissionOperations as Permissions
from interlock.hub.admin.rollback import RollbackOperations as Rollback
from interlock.hub.admin.rooms import RoomOperations as Rooms
from interlock.hub.admin.server_entries import ServerEntryOperations as ServerEntries
from interlock.hub.admin.servers import ServerOperations as Servers
from interlock.hub.admin.sessions import SessionOperations as Sessions
from interlock.hub.admin.status import StatusOperations as Status
from interlock.hub.admin.taints import TaintOperations as Taints
from interlock.hub.admin.tools import ToolOperations as Tools
from interlock.hub.audit.record import (
    ACCESS_DENIED,
    CONFIGURED,
    DECISION,
    FEATURE_DISABLED,
    FEATURE_ENABLED,
    FEATURE_FORGOTTEN,
    KEY_CREATED,
    KEY_REVOKED,
    KEY_ROTATED,
    OPERATED,
    ROOM_CAPABILITIES,
    RULE_MADE,
    RULE_REVOKED,
    SESSION_ENDED,
    TAINT_CLEARED,
)
from interlock.hub.auth.access_methods import AccessMethods as Grants
from interlock.hub.auth.principals import decides
from interlock.hub.handlers.discovery_methods import DiscoveryMethods

_ANSWERED: Final = (f"{DECISION}approved", f"{DECISION}denied")
_SERVER: Final = "/admin/servers/{server}"
_ROOM: Final = "/admin/rooms/{topic}"
_SERVER_PERMISSIONS: Final = "/admin/permissions/{server}"

# Keys of people and administrators do what an agent is asked about, or not allowed.
_NEW_KEY: Final = Proof("for a person or administrator", lambda hub_app, params: decides(params.kind))
_OTHER_KEY: Final = Proof(
    "for a person or administrator",
    lambda hub_app, params: any(decides(key.kind) for key in hub_app.keys.list() if key.principal == params.agent),
)
_ALLOWING: Final = Proof("to allow", lambda hub_app, params: params.permission == "allow")
_UNDENYING: Final = Proof("to end a denial", lambda hub_app, params: hub_app.access_methods.ends_denial(params))
_ADDING: Final = Proof("to add", lambda hub_app, params: bool(params.add))

OPERATIONS: Final[Mapping[str, Operation]] = {
    operation.name: operation
    for operation in (
        row("status", READ, Status.show, "Status of the hub and its servers", "GET /admin/status"),
        row("health", READ, Health.show, "Health of the hub and its servers", "GET /admin/health"),
        row("servers.start", WRITE, Servers.start, "Start a server", f"POST {_SERVER}/start", OPERATED),
        row(
            "servers.stop",
            WRITE,
            Servers.stop,
            "Stop a server; it stays stopped until somebody starts it",
            f"POST {_SERVER}/stop",
            OPERATED,
        ),
        row("servers.restart", WRITE, Servers.restart, "Restart a server", f"POST {_SERVER}/restart", OPERATED),
        row("servers.add", OWNER, ServerEntries.add, "Add a server to the configuration", "", OPERATED),
        row("servers.remove", OWNER, ServerEntries.remove, "Remove a server from the configuration", "", OPERATED),
        row("tools.enable", OWNER, ServerEntries.enable_tool, "Offer a tool again", "", OPERATED),
        row("tools.disable", OWNER, ServerEntries.disable_tool, "Offer a tool to nobody", "", OPERATED),
        row("logs", READ, Servers.logs, "Log lines of servers"),
        row("reload", WRITE, Configuration.reload, "Read the configuration again", "POST /admin/reload", CONFIGURED),
        row("confirm", OWNER, Configuration.confirm, "Confirm a project's file", "", CONFIGURED),
        row("clients.list", OWNER, Configuration.clients, "Programs on this machine that can use the hub"),
        row("stop", OWNER, Configuration.stop, "Stop the hub", "", OPERATED),
        row("tools", READ, Tools.list, "The tools of all servers, of one, or of a profile"),
        row("call", OWNER, Tools.call, "Call a tool", proof=ACTS),
        row("why", READ, Tools.why, "Judge a call without making it", "POST /admin/why"),
        row("find", READ, Tools.find, "Find tools by what they do"),
        row("find.forget", WRITE, Tools.forget, "Forget what was learned from use", "", OPERATED),
        row("budget", READ, Tools.budget, "What fills an agent's context, in tokens"),
        row(
            "sessions.list",
            READ,
            Sessions.list,
            "Sessions of clients, and principals seen lately",
            "GET /admin/sessions",
        ),
        row(
            "sessions.end",
            WRITE,
            Sessions.end,
            "End a session, or everything that a principal has open",
            "DELETE /admin/sessions/{id}",
            SESSION_ENDED,
        ),
        row(
            "sessions.test_channel",
            OWNER,
            Sessions.test_channel,
            "Send a test notification to the channel of a session on `interlock stdio`",
            "",
            OPERATED,
        ),
        row(
            "discovery.list",
            READ,
            DiscoveryMethods.list,
            "Servers, also registered ones and those that were never started",
            "POST /admin/discovery/list",
        ),
        row(
            "discovery.register",
            WRITE,
            DiscoveryMethods.register,
            "Register a server while the hub runs; it runs contained",
            "POST /admin/discovery",
            OPERATED,
            proof=ACTS,
        ),
        row(
            "discovery.deregister",
            WRITE,
            DiscoveryMethods.deregister,
            "Remove a registered server",
            "DELETE /admin/discovery/{id}",
            OPERATED,
        ),
        row(
            "discovery.install",
            OWNER,
            DiscoveryMethods.install,
            "Install the package of a registered server on this node, or update it",
            "",
            OPERATED,
            proof=ACTS,
        ),
        row("rooms.list", READ, Rooms.list, "Topics, with their participants", "GET /admin/rooms"),
        row(
            "rooms.capabilities",
            WRITE,
            Rooms.change,
            "Change what a participant may send in a topic",
            "POST /admin/participants/{id}/capabilities",
            ROOM_CAPABILITIES,
            proof=_ADDING,
        ),
        row(
            "rooms.mode",
            WRITE,
            Rooms.mode,
            "Choose which envelopes a connected participant receives",
            "POST /admin/participants/{id}",
            OPERATED,
        ),
        row("rooms.watch", READ, Rooms.watch, "Watch a topic as yourself", f"GET {_ROOM}/messages"),
        row("rooms.say", WRITE, Rooms.say, "Say something in a topic as yourself", f"POST {_ROOM}/messages", OPERATED),
        row("rooms.propose", WRITE, Rooms.propose, "Propose a request in a topic", f"POST {_ROOM}/proposals", OPERATED),
        row("rooms.leave", WRITE, Rooms.leave, "Leave a topic that you watched", f"POST {_ROOM}/leave", OPERATED),
        row("rooms.join", OWNER, Rooms.join, "Let the hub's user join a topic", "", OPERATED, proof=ACTS),
        row("logins.list", READ, Logins.list, "Logins to servers", "GET /admin/logins"),
        row("logins.begin", OWNER, Logins.begin, "Begin a login in a browser", "", OPERATED),
        row("logins.finish", OWNER, Logins.finish, "Complete a login with the address of its callback", "", OPERATED),
        row("logins.wait", OWNER, Logins.wait, "Wait for a login"),
        row("logins.device", OWNER, Logins.device, "Begin a login with a code", "", OPERATED),
        row("logins.poll", OWNER, Logins.poll, "Ask whether a login with a code is complete"),
        row("logins.remove", OWNER, Logins.remove, "End a login, and revoke its tokens", "", OPERATED),
        row("keys.list", READ, Keys.list, "All keys", "GET /admin/keys"),
        row(
            "keys.create",
            WRITE,
            Keys.create,
            "Create a key, shown once",
            "POST /admin/keys",
            KEY_CREATED,
            proof=_NEW_KEY,
        ),
        row("keys.revoke", WRITE, Keys.revoke, "Revoke all keys", "DELETE /admin/keys/{agent}", KEY_REVOKED),
        row(
            "keys.rotate",
            WRITE,
            Keys.rotate,
            "Replace all keys of a principal by one",
            "POST /admin/keys/{agent}/rotate",
            KEY_ROTATED,
            proof=_OTHER_KEY,
        ),
        row("grants.list", READ, Grants.list, "Grants and denials", "GET /admin/grants"),
        row(
            "grants.grant",
            WRITE,
            Grants.grant,
            "Allow or deny",
            "POST /admin/grants",
            "ACCESS_GRANTED",
            ACCESS_DENIED,
            proof=_ALLOWING,
        ),
        row(
            "grants.revoke",
            WRITE,
            Grants.revoke,
            "Delete the grants and denials at one level",
            "DELETE /admin/grants",
            "ACCESS_REVOKED",
            proof=_UNDENYING,
        ),
        row("grants.query", READ, Grants.query, "What an agent may do, and why", "GET /admin/access"),
        row(
            "permissions.list",
            READ,
            Permissions.list,
            "Permissions of servers, with their status",
            "GET /admin/permissions",
        ),
        row(
            "permissions.approve",
            WRITE,
            Permissions.approve,
            "Grant a server permissions; only a person can",
            f"POST {_SERVER_PERMISSIONS}/approve",
            "PERMISSION_GRANTED",
        ),
        row(
            "permissions.deny",
            WRITE,
            Permissions.deny,
            "Deny a server permissions",
            f"POST {_SERVER_PERMISSIONS}/deny",
            "PERMISSION_DENIED",
        ),
        row(
            "permissions.revoke",
            WRITE,
            Permissions.revoke,
            "Revoke permissions of a server",
            f"POST {_SERVER_PERMISSIONS}/revoke",
            "PERMISSION_REVOKED",
        ),
        row(
            "features.list",
            READ,
            Features.list,
            "Feature sets of servers, and for which agents each is on",
            "GET /admin/features",
        ),
        row(
            "features.enable",
            WRITE,
            Features.enable,
            "Let a server use feature sets for an agent; only a person can",
            f"POST {_SERVER}/features/enable",
            FEATURE_ENABLED,
        ),
        row(
            "features.disable",
            WRITE,
            Features.disable,
            "Switch feature sets off for an agent",
            f"POST {_SERVER}/features/disable",
            FEATURE_DISABLED,
        ),
        row(
            "features.forget",
            WRITE,
            Features.forget,
            "Delete patterns that enable or disable feature sets for an agent; only a person can",
            f"POST {_SERVER}/features/forget",
            FEATURE_FORGOTTEN,
        ),
        row("events.list", READ, Features.events, "Events that servers pushed, newest first", "GET /admin/events"),
        row("usage", READ, Features.usage, "Events, inferences, tokens and cost", "GET /admin/usage"),
        row("chat.send", OWNER, Conversations.send, "Say something to a model", "", OPERATED),
        row("chat.read", OWNER, Conversations.read, "Read a model's answer as it comes"),
        row("chat.stop", OWNER, Conversations.stop, "Stop a model's answer", "", OPERATED),
        row(
            "conversations.list",
            READ,
            Conversations.list,
            "Conversations with models, without their text",
            "GET /admin/conversations",
        ),
        row("conversations.show", OWNER, Conversations.show, "A conversation, and what was said in it", "", OPERATED),
        row("channels.list", READ, Channels.list, "Channels that servers registered", "GET /admin/channels"),
        row(
            "channels.open", WRITE, Channels.open, "Have a server open a channel", "POST /admin/channels/open", OPERATED
        ),
        row(
            "channels.close",
            WRITE,
            Channels.close,
            "Have a server close a channel",
            "POST /admin/channels/close",
            OPERATED,
        ),
        row("rollback.plan", OWNER, Rollback.plan, "What of a conversation's changes can be taken back"),
        row("rollback.run", OWNER, Rollback.run, "Take back what a conversation changed", "", OPERATED, proof=ACTS),
        row("conversations.delete", OWNER, Conversations.delete, "Delete a conversation", "", OPERATED),
        row("approvals.list", READ, Approvals.list, "Open approval requests", "GET /admin/decisions"),
        row("approvals.show", READ, Approvals.show, "One approval request", "GET /admin/decisions/{id}"),
        row(
            "approvals.answer",
            WRITE,
            Approvals.answer,
            "Answer an approval request; only a person can, and never the asker",
            "POST /admin/decisions/{id}/answer",
            *_ANSWERED,
        ),
        row("rules.list", READ, Approvals.rules, "The rules: calls that need no approval", "GET /admin/rules"),
        row(
            "rules.make",
            WRITE,
            Approvals.make_rule,
            "Make a rule; only a person can",
            "POST /admin/rules",
            RULE_MADE,
        ),
        row("rules.revoke", WRITE, Approvals.revoke_rule, "Delete a rule", "DELETE /admin/rules/{id}", RULE_REVOKED),
        row("passphrase.set", OWNER, Approvals.set_passphrase, "Set the passphrase that approvals need", "", OPERATED),
        row("passphrase.remove", OWNER, Approvals.remove_passphrase, "Remove the passphrase", "", OPERATED),
        row(
            "taints.list", READ, Taints.list, "Agents that were given results of untrusted servers", "GET /admin/taints"
        ),
        row(
            "taints.clear",
            WRITE,
            Taints.clear,
            "End the taint of an agent",
            "DELETE /admin/taints/{agent}",
            TAINT_CLEARED,
        ),
        row("audit.search", READ, AuditLog.search, "Search the audit log", "GET /admin/audit"),
        row("audit.show", READ, AuditLog.show, "One record", "GET /admin/audit/{seq}"),
        row("audit.verify", READ, AuditLog.verify, "Verify the audit log", "POST /admin/audit/verify"),
        row("audit.export", OWNER, AuditLog.export, "Write every record to a file", "", OPERATED),
        row("console.code", OWNER, Console.code, "Make a code that opens the console, once", "", OPERATED),
        row("backup", OWNER, AuditLog.backup, "Write all data of the hub to a file", "", OPERATED),
    )
}
