"""SQL that only reads. Parsed in every dialect it could be meant for. A statement that is not known to only read is
refused."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from interlock.judge.findings import Finding
from interlock.judge.tables import name_set

if TYPE_CHECKING:
    from sqlglot import exp

MAX_LENGTH = 5_000
"""Upper bound for the characters parsed for one judgement, over all dialects. It bounds the time."""
MAX_NESTING = 20
MAX_STATEMENTS = 20
MAX_MARKS = 800
"""Characters that are neither words nor blanks: parsing costs by these."""
_DIALECTS = ("", "postgres", "mysql", "sqlite", "tsql", "clickhouse", "snowflake", "bigquery", "duckdb", "oracle")
"""Tried in turn, when the dialect is not known, until one can read the text."""
_DISAGREEING = ("postgres", "mysql", "sqlite")
_AMBIGUOUS = re.compile(r"[\\\"`#$\[]|--\S|/\*")
"""Quotes, escapes and comments that dialects read differently. A text with them must only read in every dialect."""

_EXECUTABLE_COMMENT = re.compile(r"/\*M?!")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_WRITE_WORDS = re.compile(
    r"\b(?:insert|update|delete|drop|alter|create|truncate|grant|revoke|merge|replace|call|exec|execute|into|copy|"
    r"attach|detach|vacuum|reindex|"
    r"set|lock|load|import|handler|do|prepare|declare|begin|commit|rename|analyze|cluster|refresh|listen|notify|"
    r"kill|shutdown|backup|restore|use)\b",
    re.IGNORECASE,
)
_QUOTED_EVERYWHERE = re.compile(r"'[^'\\\n]*'|\"[\w .,:-]*\"|`[\w .-]*`|\[[\w .-]*\]")
"""Text that every dialect reads as a string or a name, or cannot read at all."""
_PLAINLY_QUOTED = re.compile(r"'[^'\\\n]*'|(?:\"[\w .,:-]*\"|`[\w .-]*`|\[[\w .-]*\])(?!\s*\()")
"""The same, without names of functions. Such a text ends at the same place in every dialect."""
_MARK = re.compile(r"[^\w\s]")
_WRITES_FIRST = re.compile(
    r"(?i)[\s;(]*(create|alter|insert|update|delete|drop|truncate|merge|grant|revoke|copy|call|exec|execute|attach|detach|"
    r"load|lock|vacuum|reindex|rename|comment|refresh|cluster|import|export|backup|restore|put|unload|upsert)\b(?!\s*\()"
)
"""Statements that begin so are not given to the parser: some of them would keep it busy for ever."""
_SETS_VARIABLE = re.compile(r"@\w+\s*:=")
_HINT = "send one SELECT, or use a tool that may write"


def judge_readonly_sql(sql: str, dialect: str | None = None) -> tuple[Finding, ...]:
    """Everything in a text of SQL that writes, or is not known to only read."""
    if len(sql) > MAX_LENGTH:
        return (Finding("sql.too_long", f"longer than {MAX_LENGTH} characters", "send a shorter statement"),)
    found: list[Finding] = []
    for finding in _judge(sql, dialect):
        placed = _placed(finding, sql)
        if placed not in found:
            found.append(placed)
    return tuple(found[:32])


_NAMED = re.compile(r"\b(?:([A-Z]{2,})|([\w$.]+)\(\))")


def _placed(finding: Finding, sql: str) -> Finding:
    """With the place of the word or function that its message names, or of the whole text."""
    if finding.span is not None:
        return finding
    named = _NAMED.match(finding.message) or _NAMED.search(finding.message)
    word = (named[1] or named[2].rpartition(".")[2]) if named else ""
    place = re.search(rf"(?i)(?<![\w$]){re.escape(word)}(?![\w$])", sql) if word else None
    return msgspec.structs.replace(finding, span=place.span() if place else (0, len(sql)))


def _judge(sql: str, dialect: str | None) -> Iterator[Finding]:
    if not sql.strip(" \t\r\n;"):
        yield Finding("sql.empty", "there is no statement", "send one SELECT")
        return
    match = _CONTROL.search(sql)
    if match:
        yield Finding("sql.control_character", "control character in a statement", "remove it", match.span())
        return
    match = _EXECUTABLE_COMMENT.search(sql)
    if match:
        yield Finding("sql.executable_comment", "MySQL runs what is in this comment", "write it plainly", match.span())
        return
    if _nesting(sql) > MAX_NESTING:
        yield Finding("sql.too_deep", f"nested more than {MAX_NESTING} deep", "send a simpler statement")
        return
    if sql.count(";") > MAX_STATEMENTS or len(_MARK.findall(sql)) > MAX_MARKS:
        yield Finding("sql.too_long", "more parts than can be judged", "send a shorter statement")
        return
    match = _WRITES_FIRST.match(sql)
    if match:
        yield Finding("sql.writes", f"{match[1].upper()} does not only read", _HINT, match.span(1))
        return
    if "system_versioning" in sql.lower():
        yield Finding("sql.unparsable", "this is not SQL that can be read safely", _HINT)
        return
    match = _SETS_VARIABLE.search(sql)
    if match:
        yield Finding("sql.writes", "sets a variable", _HINT, match.span())
        return
    ambiguous = dialect is None and _AMBIGUOUS.search(_PLAINLY_QUOTED.sub("_", sql)) is not None
    disagreeing = (*_DISAGREEING, "tsql") if "[" in sql else _DISAGREEING
    dialects = disagreeing if ambiguous else _DIALECTS if dialect is None else (dialect,)
    affordable = dialects[: MAX_LENGTH // len(sql)]
    if ambiguous and len(affordable) < len(dialects):
        yield Finding(
            "sql.too_long", "too long to judge in every dialect it could be", "have the operator name the dialect"
        )
        return
    read, unread = 0, 0
    for name in affordable:
        statements = _parse(sql, name)
        if statements is None:
            unread += 1
            continue
        read += 1
        problems = list(_judge_statements(statements))
        yield from problems
        if problems:
            return
        if not ambiguous:
            break
    if not read:
        yield Finding("sql.unparsable", "this is not SQL that can be read safely", _HINT)
    elif unread:
        match = _WRITE_WORDS.search(_QUOTED_EVERYWHERE.sub(lambda quoted: "_" * len(quoted[0]), sql))
        if match:
            yield Finding(
                "sql.ambiguous", f"dialects disagree on this text, and it holds {match[0]!r}", _HINT, match.span()
            )


def _nesting(sql: str) -> int:
    depth = deepest = 0
    for character in sql:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}" and depth:
            depth -= 1
    return max(deepest, sql.lower().count("case") // 2)


def _parse(sql: str, dialect: str | None) -> list[exp.Expr] | None:
    parse = _loaded()
    try:
        parsed = parse(sql, read=dialect or None)
    except Exception:  # The parser is not ours, and text that breaks it is text that cannot be read.
        return None
    return [statement for statement in parsed if statement is not None]


@functools.cache
def _loaded() -> Callable[..., Sequence[exp.Expr | None]]:
    """The parser, on first use. It warns about every statement it keeps as text; those are judged here."""
    import logging

    import sqlglot

    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    return sqlglot.parse


def _judge_statements(statements: list[exp.Expr]) -> Iterator[Finding]:
    from sqlglot import exp

    for statement in statements:
        kind = type(statement)
        if isinstance(statement, exp.Semicolon):
            continue
        if isinstance(statement, exp.Anonymous) and statement.name.upper() == "VALUES":
            continue
        if isinstance(statement, exp.Pragma):
            yield from _judge_pragma(statement)
        elif isinstance(statement, exp.Command):
            yield from _judge_command(statement)
        elif not isinstance(statement, (exp.Query, exp.Values, exp.Show, exp.Describe)):
            # An expression alone is a typing error, or in some dialects the call of a procedure.
            is_expression = isinstance(statement, (exp.Condition, exp.Alias))
            no_statement = "this is no statement that is known to only read"
            reason = no_statement if is_expression else f"{kind.key.upper()} does not only read"
            yield Finding("sql.writes", reason, _HINT)
        else:
            yield from _judge_tree(statement)


_WRITERS = (
    "DML DDL Drop Alter TruncateTable Copy Into Lock Command Merge LoadData Set Transaction Commit Rollback Kill Grant "
    "Use Attach Detach"
)


def _judge_tree(statement: exp.Expr) -> Iterator[Finding]:
    from sqlglot import exp

    writers = tuple(getattr(exp, name) for name in _WRITERS.split())
    for node in statement.walk():
        if isinstance(node, exp.Query):
            continue
        if isinstance(node, writers):
            yield Finding("sql.writes", f"{node.key.upper()} inside the statement writes or locks", _HINT)
        elif isinstance(node, exp.Func):
            name = _function_name(node)
            if _has_effect(name):
                yield Finding("sql.side_effect", f"the function {name}() has effects beyond reading", _HINT)
        elif isinstance(node, exp.Table) and node.name.lower().startswith("pragma_"):
            if node.name.lower().removeprefix("pragma_") not in _PRAGMA_READS:
                yield Finding("sql.writes", f"{node.name} may set something", "use a PRAGMA that only reports")
        elif isinstance(node, exp.Table) and "/" in node.name:
            yield Finding("sql.side_effect", "reads a file of the server as a table", "name a table of the database")
        elif isinstance(node, exp.Table) and _function_of(node) == "glob":
            yield Finding("sql.side_effect", "lists files of the server", "name a table of the database")
        elif isinstance(node, exp.Table) and node.args.get("alias") is not None and not node.alias:
            # `FROM file('x')`: what one dialect reads as a table with odd columns, another calls as a function.
            if _has_effect(node.name.lower()):
                yield Finding("sql.side_effect", f"the function {node.name}() has effects beyond reading", _HINT)
        elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
            name = f"{node.this.name}.{_function_name(node.expression)}".lower()
            if _EFFECT_SCHEMAS.match(name):
                yield Finding("sql.side_effect", f"the function {name}() has effects beyond reading", _HINT)


def _function_of(table: exp.Expr) -> str:
    """The function that stands in place of a table, if one does."""
    from sqlglot import exp

    return _function_name(table.this) if isinstance(table.this, exp.Func) else ""


def _function_name(node: exp.Expr) -> str:
    from sqlglot import exp

    return str(node.name if isinstance(node, exp.Anonymous) else node.key).lower()


_EFFECTS = name_set(
    "setval nextval set_config load_extension writefile readfile edit fts3_tokenizer sleep benchmark pg_sleep "
    "get_lock release_lock is_free_lock master_pos_wait load_file into_outfile sys_exec sys_eval sys_get "
    "openrowset opendatasource openquery query_to_xml query_to_xmlschema table_to_xml database_to_xml "
    "cursor_to_xml eval execute exec system shell txid_current raise_application_error read_text read_blob "
    "read_csv read_csv_auto read_parquet read_json s3 hdfs mysql postgresql jdbc odbc executable http_get "
    "url file remote remotesecure urlcluster filecluster s3cluster gcs azureblobstorage input mongodb redis deltalake "
    "iceberg hudi httpuritype dburitype xdburitype bfilename read_json_auto read_ndjson parquet_scan sniff_csv "
    "sqlite_scan postgres_scan mysql_scan st_read "
    "http_post net_http_post updatexml extractvalue readcsv readparquet lo_creat lo_create lo_unlink lo_put lo_open "
    "lowrite getenv external_query ts_stat ts_rewrite connectby xpath_table fsdir zipfile dm_os_file_exists "
    "dm_os_enumerate_filesystem fn_trace_gettable fn_get_audit_file pg_background_launch"
)
_EFFECT_NAMES = re.compile(
    r"^(?:(?:query|table|cursor|schema|database)_to_xml|release_\w*locks?$|lo_(?:import|export|from_bytea|truncate)|pg_(?:read|write|ls|stat_file|terminate|cancel|reload|rotate|"
    r"switch|create|drop|start|stop|"
    r"advisory|try_advisory|sleep|logical|replication|promote|file|execute|notify|logdir|import|export|stat_reset|"
    r"log_backend)|dblink|xp_|sp_|utl_|"
    r"dbms_|system\$|crosstab|(?:set|run|call|reset)_)"
    r"|(?:^|_)(?:delete|drop|insert|update|upsert|create|alter|truncate|exec|execute|write|save|purge|remove|send|"
    r"enqueue|grant|revoke|kill|lock|unlock|schedule|unschedule|invoke|launch|attach|detach|rename|restore|backup|"
    r"upload|publish|notify|flush|vacuum|reindex|terminate|rebuild)(?:_|$)"
)
_EFFECT_READS = frozenset(
    {"set_bit", "set_byte", "set_masklen", "update_time", "create_time", "run_length", "remove_accents"}
)
_EFFECT_SCHEMAS = re.compile(
    r"^(?:dbms_\w+|utl_\w+|sys|master|msdb|ctxsys|owa_\w+|xp_\w+|cron|aws_s3|aws_lambda|pgmq|net|vault|graphql|"
    r"pglogical|partman|apex_\w+)\."
)


def _has_effect(name: str) -> bool:
    return name in _EFFECTS or (_EFFECT_NAMES.search(name) is not None and name not in _EFFECT_READS)


_PRAGMA_READS = name_set(
    "table_info table_xinfo table_list index_list index_info index_xinfo foreign_key_list "
    "foreign_key_check database_list collation_list "
    "function_list module_list pragma_list compile_options integrity_check quick_check data_version "
    "freelist_count page_count "
    "user_version application_id schema_version encoding page_size journal_mode synchronous cache_size "
    "foreign_keys auto_vacuum show "
    "busy_timeout temp_store locking_mode max_page_count"
)
_PRAGMA_CALLS = frozenset(name for name in _PRAGMA_READS if name.endswith(("_info", "_xinfo", "_list", "_check")))


def _judge_pragma(statement: exp.Expr) -> Iterator[Finding]:
    text = statement.sql(dialect="sqlite")
    match = re.fullmatch(r"PRAGMA\s+(?:\w+\.)?(\w+)\s*(?:\((.*)\)|(=.*))?\s*", text, re.IGNORECASE | re.DOTALL)
    name = match[1].lower() if match else ""
    called, assigned = (match[2], match[3]) if match else (None, None)
    if name not in _PRAGMA_READS or ((called or assigned) and name not in _PRAGMA_CALLS):
        yield Finding("sql.writes", f"PRAGMA {name or text[7:40]} may set something", "use a PRAGMA that only reports")


_EXPLAIN = re.compile(
    r"(?:EXPLAIN|DESCRIBE|DESC)\s+(?:QUERY\s+PLAN\s+|EXTENDED\s+|VERBOSE\s+|ANALYZE\s+|FORMAT\s*=\s*\w+\s+|"
    r"\([^)]*\)\s*)*(.*)",
    re.IGNORECASE | re.DOTALL,
)


def _judge_command(statement: exp.Expr) -> Iterator[Finding]:
    """Judges statements that the parser keeps as text: EXPLAIN by its statement, SHOW reads, the rest may write."""
    rest = statement.args.get("expression") or ""
    text = f"{statement.name} {rest if isinstance(rest, str) else rest.name}".strip()
    explained = _EXPLAIN.fullmatch(text)
    if explained:
        inner = explained[1].strip()
        if re.match(r"(?:with|select|values|table)\b", inner, re.IGNORECASE):
            yield from (msgspec.structs.replace(each, span=None) for each in judge_readonly_sql(inner))
        elif re.search(r"\banalyze\b", text, re.IGNORECASE) or not re.fullmatch(r"[\w.\"`\[\]]+", inner):
            yield Finding("sql.writes", "EXPLAIN may run what it explains", "explain a SELECT")
    elif not re.match(r"SHOW\b", text, re.IGNORECASE):
        yield Finding("sql.writes", f"{statement.name.upper()} is not known to only read", _HINT)
