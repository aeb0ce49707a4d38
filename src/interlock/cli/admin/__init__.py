"""Commands by which an operator decides and looks back: approvals, grants, permissions, keys, audit log, backups."""
