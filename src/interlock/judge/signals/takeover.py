"""Signals of an attempt to take the model over: secrets from the person, other rules, other roles, borrowed voices."""

from __future__ import annotations

from interlock.judge.signals.words import MODEL, MUST, NOT, PERSON, RULES, USER, Signal

TAKEOVER = (
    # Keeping something from the person.
    Signal(
        "secrecy",
        2,
        rf"{NOT} <15>(?:mention|tell|inform|reveal|disclos|acknowledg|admit|talk about|bring up|let)\w* <50>{PERSON}",
    ),
    Signal(
        "secrecy",
        2,
        rf"(?:^|[.!?;:,\n\"(*>] ?|\band |\bplease |\byou (?:must |should |"
        rf"shall )?){NOT} <15>(?:mention|tell|inform|reveal|"
        rf"disclos|talk about|bring up|say|let)\w* <30>(?:anyone|anybody|them)\b",
    ),
    Signal(
        "secrecy",
        2,
        rf"{NOT} <12>(?:mention|reveal|disclos|acknowledg|bring up|refer to)\w* (?:this|that|these|it|any of "
        rf"this|the above)\b",
    ),
    Signal(
        "secrecy",
        1,
        rf"{NOT} <15>(?:show|display|report|explain|expose|say|notif|alert|warn|ask|prompt)\w* <40>{USER}",
    ),
    Signal(
        "secrecy",
        2,
        rf"\b(?:hide|conceal|mask|keep) (?:this|it|that|these|them|everything|all|the) <30>(?:from|secret from|"
        rf"hidden from) (?:the |your |our )?(?:{USER}|logs?|audit)",
    ),
    Signal("secrecy", 1.5, rf"\b(?:hide|conceal|withhold)\b <30>\bfrom (?:the |your |our )?{USER}"),
    Signal(
        "secrecy",
        2,
        r"\bkeep (?:this|it|that|these) <15>(?:secret|confidential|between us|to yourself|quiet|hidden)",
    ),
    Signal("secrecy", 2, r"\b(?:secretly|covertly|surreptitiously|stealthily|clandestinely)\b"),
    Signal(
        "secrecy",
        2,
        rf"without (?:the )?(?:{USER}'?s?|their) (?:knowledge|consent|awareness|noticing|knowing|being aware|"
        rf"seeing)",
    ),
    Signal(
        "secrecy",
        1,
        r"\b(?:silently|quietly|discreetly|invisibly|in the background) (?:also )?(?:send|read|copy|forward|"
        r"upload|includ|collect|attach|append|transmit|run|execut|call|add|post|exfil|log)",
    ),
    Signal(
        "secrecy",
        1.5,
        rf"(?:the )?{USER} (?:must|should|does|do|will|need)(?: not|n'?t) (?:ever |need to )?(?:know|see|notice|"
        rf"be aware|be told|be informed|find out|realiz|realis)",
    ),
    Signal("secrecy", 0.75, rf"(?:invisible|hidden|not visible|not shown) (?:to|from) (?:the )?{USER}"),
    # Setting other instructions aside.
    Signal(
        "override",
        2,
        rf"\b(?:ignor|disregard|forget|neglect|overrul|violat|circumvent|disobey)\w* (?:all |any |the |your |"
        rf"every |these |those |of |my |its |other |and |or )*(?:previous|prior|above|earlier|preceding|past|"
        rf"existing|initial|original|system|safety|security|ethical|content|developer|internal|foregoing|usual|"
        rf"standard|normal)[a-z\s,/_\-]{{0,30}}{RULES}",
    ),
    Signal(
        "override",
        2,
        rf"\b(?:ignor|disregard|forget)\w* (?:all|any|every|everything|your|whatever)(?: of| the| your| other)"
        rf"* (?:{RULES}|safety|you(?: were|'ve| have)|above|before)",
    ),
    Signal(
        "override",
        2,
        rf"\b(?:overrid|supersed|bypass|disabl|circumvent|suspend|turn off|deactivat)\w* (?:all |any |the |your "
        rf"|every |these |those |of |other |and )*(?:previous|prior|system|safety|security|ethical|content|your|"
        rf"moderation|guardrail|access)[a-z\s,/]{{0,20}}{RULES}",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:bypass|overrid|circumvent)\w* (?:all |any |the )?(?:safety|security|guardrails?|restrictions|"
        r"moderation)\b",
    ),
    Signal(
        "override",
        2,
        r"\b(?:these|this|the following|my) (?:instructions?|rules?|directives?|guidelines?) (?:override|supersede|"
        r"take precedence|replace|have priority|outrank)",
    ),
    Signal(
        "override",
        2,
        r"\b(?:new|updated|revised|real|actual|true) (?:system )?(?:instructions?|prompt|task|objective|directives?|"
        r"role|goal)(?: is| are)? ?(?::|as follows|the following|below)",
    ),
    Signal(
        "override",
        2,
        r"\byour (?:new|real|true|actual|primary|only|first) (?:task|goal|objective|purpose|instructions?|role|"
        r"mission|job) (?:is|are|now)\b",
    ),
    Signal(
        "override",
        2,
        rf"\b(?:previous|prior|above|earlier|all|other|system|safety) (?:previous |prior |other )?{RULES} (?:are|"
        rf"is|have been|has been) (?:now )?(?:void|null|cancel\w*|revoked|suspended|no longer|superseded|overridden|"
        rf"lifted|invalid|obsolete|disabled|outdated|expired|incorrect|wrong|a test|fake|replaced)",
    ),
    Signal(
        "override",
        1,
        r"\b(?:override|unrestricted|privileged|root|admin(?:istrator)?) (?:authority|access|code|mode|privileges?)"
        r"\b",
    ),
    # Another role.
    Signal("role", 1, r"\b(?:developer|debug|god|admin|maintenance|unrestricted|root|jailbreak) mode\b"),
    Signal("role", 1, r"\b(?:must|shall|will|always) obey\b|\bobey (?:the|this|these|all|every|my)\b"),
    Signal(
        "override",
        1,
        r"\b(?:without|skip|no) (?:all |any )?(?:security|safety|access) "
        r"(?:checks?|validations?|restrictions?|controls?)",
    ),
    Signal("role", 1.5, r"\byou are (?:now|no longer|henceforth|going to act)\b"),
    Signal("role", 2, r"\bfrom now on\b<10>(?:you|always|every|all)"),
    Signal("role", 2, r"\bpretend (?:to be|you are|you'?re|that you|you have)\b"),
    Signal("role", 1.5, r"\b(?:unrestricted|unfiltered|uncensored|jailbroken) (?:agent|assistant|ai|model|mode)\b"),
    Signal(
        "role",
        2,
        r"\bact as ?(?::|if you|an? (?:unrestricted|admin\w*|root|system|different|developer|jailbroken|evil)"
        r")",
    ),
    Signal(
        "role",
        2,
        r"\b(?:developer|debug|god|admin|dan|jailbreak|unrestricted|sudo|unfiltered|permissive) mode (?:(?:is|"
        r"has been|now) )+(?:enabled|activated|on|active)\b",
    ),
    Signal(
        "role",
        2,
        r"\b(?:enter|enable|activate|switch (?:in)?to) (?:developer|god|dan|jailbreak|unrestricted|sudo|unfiltered)"
        r" mode",
    ),
    Signal("role", 1.5, r"\b(?:jailbreak|do anything now)\b"),
    # Words that claim to come from the system or the person.
    Signal(
        "impersonation",
        2,
        r"(?:^|[\n.!?>\"*] ?)(?:assistant|ai|agent|model|claude|gpt) ?: ?(?:sure|okay|ok\b|certainly|of course|yes\b|"
        r"understood|i will|i'll|i have|done\b|executing|deleting|sending)",
    ),
    Signal(
        "impersonation",
        2,
        r"\bend of (?:the )?(?:tool |search |web |function )?(?:output|results?|response|context|document|data|page|"
        r"user input)\b <40>\b(?:user|human|system|assistant|developer|new (?:instructions?|task)) ?:",
    ),
    Signal(
        "impersonation",
        1.5,
        r"</ ?(?:tool results?|tool response|tool output|tool call|function results?|function calls?|search results?|"
        r"untrusted\w*|user input|user data|external (?:data|content)|retrieved \w+)>",
    ),
    Signal("impersonation", 1, r"<(?:user|human|assistant|developer|operator)(?: (?:message|turn|input|request))?>"),
    Signal(
        "impersonation",
        2,
        r"\bif you(?:'re| are) (?:an? |the |any )?(?:ai|llm|artificial|large language|language model|chatbot|assistant|"
        r"automated|bot|model|agent)\b <60>\b(?:output|print|say|respond|reply|write|include|please|must|should|ignore|"
        r"recommend|append|add|state|do not|always|score|rate|approve)\b",
    ),
    Signal(
        "impersonation",
        0.75,
        r"\bthe (?:user|human|operator|customer) (?:wants|asked|expects|instructed|told) you to\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:stop|abort|pause|cease|halt)\b <35>\band (?:instead |now )?(?:print|output|reveal|send|"
        r"say|write|execute|"
        r"call|list|show|tell)",
    ),
    Signal(
        "impersonation",
        2,
        r"<\|?(?:im start|im end|endoftext|start header id|eot id|begin of text)\|?>|\[/?inst\]|<</?sys>>",
    ),
    Signal(
        "impersonation",
        2,
        r"</?(?:system|sys|hidden|secret|override|directive|system (?:prompt|instructions?|message|override|"
        r"reminder|note)|hidden instructions?|secret instructions?)>",
    ),
    Signal(
        "impersonation",
        1,
        r"</?(?:important|critical|urgent|information|attention|mandatory|admin|instructions?|assistant|required)"
        r">",
    ),
    Signal(
        "impersonation",
        2,
        r"\[ ?(?:[a-z]+ ){0,2}(?:hidden|secret|system|metadata|emergency|internal|admin|override|developer|priority|"
        r"mandatory|ai|llm|model|agent|assistant) (?:[a-z]+ ){0,2}(?:instructions?|directives?|overrides?|commands?|"
        r"prompts?|messages?|notes?|orders?|protocols?) ?\]",
    ),
    Signal(
        "impersonation",
        1,
        r"\[ ?(?:system|hidden|admin|important|critical|instructions?|directive|override) ?\]",
    ),
    Signal(
        "impersonation",
        2,
        r"\b(?:system|admin(?:istrator)?|safety|security|emergency|ai|llm|agent|hidden|secret|override|instruction) "
        r"(?:override|directive"
        r"|instructions?|bypass(?: protocol)?|command) ?:",
    ),
    Signal(
        "impersonation",
        1.5,
        r"(?:^|[\n.!>\]#*] ?)(?:system|admin|developer)(?: (?:note|notice|message|alert|update|reminder))? ?: "
        r"<200>\b(?:you|must|please|call|ignore|bypass|allow|trust|send|always|never|do not|required|user'?s)"
        r"\b",
    ),
    Signal(
        "impersonation",
        2,
        r"\bmessage from (?:me|your|the) ?,? ?(?:the )?(?:user|developer|creator|owner|administrator|system)"
        r"\b",
    ),
    Signal("impersonation", 1, r"\b(?:to|for) you,? (?:the )?(?:ai|llm|assistant|language|model|agent)\b"),
    Signal(
        "impersonation",
        1,
        rf"\b(?:instructions? (?:to|for)|important for)[:\s]+(?:the |all |any |you,? )*{MODEL}",
    ),
    Signal(
        "impersonation",
        1.5,
        rf"\b(?:attention|dear|hey|hello|note (?:to|for)|message (?:to|for)|reminder (?:to|for)|directive (?:to|"
        rf"for)|hidden from humans)[:,\s]+(?:the |all |any |you,? )*{MODEL}",
    ),
    Signal("impersonation", 0.5, rf"\b(?:the |any |an? )?{MODEL} {MUST}\b"),
    Signal(
        "impersonation",
        1.5,
        r"<!--<200>\b(?:you|must|ignore|system|instruction|assistant|ai|important|send|read|call|before|always|"
        r"never|do not)\b|\[//\]: ?#",
    ),
    Signal(
        "impersonation",
        1,
        r"(?:display ?: ?none|font size ?: ?0|visibility ?: ?hidden|opacity ?: ?0\b|color ?: ?(?:white|#fff|"
        r"transparent))",
    ),
)
