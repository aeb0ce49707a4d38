"""Operations of an operator: keys, permissions, approvals, the audit log, backups."""
