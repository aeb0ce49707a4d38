"""What instructions to a model speak of, as patterns: who reads, who should not know, what is held, where it goes."""

from __future__ import annotations

READER = (
    r"(?:ai|llms?|language models?|assistants?|(?:ai |coding |shopping |browsing |automated )?agents?|copilot|"
    r"chatbots?)\b"
)
SOMEONE = (
    r"(?:users?|humans?|person|people|customers?|operators?|clients?|owner|developers?|account holders?|applicants?|"
    r"nobody|no one|anyone|anybody|everyone|them|him|her|admin\w*|reader)\b"
)
OBLIGED = (
    r"(?:must|shall|should|has to|have to|needs? to|ought to|(?:is|are) (?:to|asked to|expected to|required to|"
    r"instructed to|told to|obliged to|bound to|supposed to|requested to|advised to)|will)\b"
)
SESSION = (
    r"(?:(?:entire|whole|full|complete|verbatim|exact|raw|all of the|everything in the|rest of the) (?:text of the |"
    r"content of the )?(?:conversations?|dialog(?:ue)?s?|chats?|sessions?|discussions?|transcripts?|exchange|"
    r"prompts?|context)"
    r"|(?:conversation|dialog(?:ue)?|chat|session|discussion|exchange) (?:so far|up to (?:this point|now|here)|until "
    r"now|"
    r"to date|before this)"
    r"|(?:text|body|content) of the (?:first|last|previous|opening) (?:user )?messages?"
    r"|(?:first|opening|earliest) (?:user )?message (?:in|of) (?:this|the) (?:session|conversation|chat)"
    r"|(?:user|human|person|customer) (?:last|just|previously|has) (?:said|asked|typed|wrote|written)"
    r"|(?:assistants?|models?|agents?|llms?|you) (?:was|were) (?:told|given|instructed)"
    r"|(?:reasoning|thinking|thought) (?:trace|process|steps?|chain)? ?of the (?:model|assistant|agent)"
    r"|(?:assistant|model|agent|llm)'?s? (?:private|hidden|internal|own|secret) (?:notes?|instructions?|reasoning|"
    r"memory|"
    r"thoughts?)"
    r"|(?:hidden|secret|initial) (?:instructions?|prompts?|parts?)"
    r"|(?:other|all) tools (?:that are |which are )?(?:available|known|visible|offered) to (?:you|the (?:model|"
    r"assistant|agent)))"
)
BELONGINGS = (
    r"(?:clipboard|cookie jars?|cookies|keychains?|(?:saved|stored|remembered) (?:passwords?|logins?|credentials?|"
    r"cards?)|"
    r"(?:master|signing|private|ssh|api|secret|access|encryption) keys?|key ?files?|passwords?|passphrases?|"
    r"credentials?|"
    r"(?:access|auth|session|bearer|api|refresh) tokens?|secrets|env(?:ironment)? var(?:iable)?s?|every env\b|"
    r"card numbers?|card details|address book|contact list|home address|browser history|database dump|"
    r"downloads folder|home directory|backups?|invoices|salar(?:y|ies)|session ids?|authorized keys)\b"
)
HOME_FILE = (
    r"(?:(?:~|\$home|%userprofile%|/root|/home/\w+|/users/\w+)[/\\]\.[a-z][\w./\\-]{1,60}|\.(?:env|pgpass|netrc|"
    r"npmrc|pypirc|"
    r"pem|p12|pfx|kdbx|ovpn|htpasswd)\b|(?:cat|type|read) /etc/\w+|\bhosts\.yml\b)"
)
HELD = rf"(?:{BELONGINGS}|{HOME_FILE}|\b{SESSION})"
HAND_OVER = (
    r"\b(?:includ|append|prepend|pass|put|add|plac|attach|insert|embed|provid|suppl(?:y|ied)|send|sent|forward|"
    r"transmit|upload|post|"
    r"cop(?:y|ied)|encod|submit|report|writ|paste|return|repeat|print|dump|disclos|shar|stick|ship|export|deliver|"
    r"hand|giv|relay|mirror|sync|stor|record|log|leak|e?mail|wire|push|accompan(?:y|ies)|belongs?|reveal|list|enumerat|"
    r"surrender|output|show|mention|tell|us)(?:e|es|ed|ing|s|en)?\b"
)
FETCH = (
    r"\b(?:read|open|fetch|retriev|look up|load|collect|gather|grab|get|tak|access|scan|search|find|consult|pull|"
    r"obtain|"
    r"extract|harvest|captur|locat|cat|list|enumerat|export|dump|hold on to|keep)(?:e|es|ed|ing|s)?\b"
)
SLOT = (
    r"(?:\b(?:in|into|as|under|within|to|via|through|using|inside|at the (?:top|end) of) (?:the |a |an |its "
    r")?(?:field |"
    r"parameter |argument )?[`'\"][\w.-]{1,40}[`'\"]|\b(?:in|into|as|to|under) (?:the |an? |its )?[\w-]{1,30} "
    r"(?:field|argument|"
    r"parameter|property|header|slot|column|attribute)\b|\b(?:in|into|as) (?:q|args?|notes?|memo|remarks|context|"
    r"metadata|data|"
    r"payload|body|salt|trace|hint|sample|auth_hint|sidenote)\b)"
)
OUTSIDE = (
    r"(?:https?:|\bwww\.|[\w.+-]{1,40}@[\w-]{1,40}\.|\b(?:our|my|this|that|their|the other|an? external|an? remote|"
    r"attacker'?s?) "
    r"(?:own )?(?:server|bucket|endpoint|url|team|account|host|address|mailbox|inbox|webhook|collector|domain|site|"
    r"proxy|"
    r"partner|relay)\b|\bcollector\b|\bwebhook\b|\b[a-z]{2}\d{2} ?\d{4} ?\d{4}|\+\d[\d ]{6,})"
)
PLEASE = (
    r"(?:^|[.!?;:,\n>)\]*-] ?|\b(?:please|kindly|also|then|and|first|always|now|go ahead and|pls|simply|just|quietly) )"
)
