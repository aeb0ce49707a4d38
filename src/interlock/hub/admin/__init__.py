"""What an operator can do: keys, permissions, approvals, the audit log, backups."""
