"""Signals of an attempt to take the model over: secrets from the person, other rules, other roles, borrowed voices."""

from __future__ import annotations

from interlock.judge.signals.words import MODEL, MUST, NOT, PERSON, RULES, USER, Signal

TAKEOVER = (
    # Keeping something from the person.
    Signal(
        "secrecy",
        2,
        rf"{NOT} <15>\b(?:mention|tell|inform|reveal|disclos|acknowledg|admit|talk about|bring up|let)\w* <50>{PERSON}",
    ),
    Signal(
        "secrecy",
        2,
        rf"(?:^|[.!?;:,\n\"(*>] ?|\band |\bplease |\byou (?:must |should |"
        rf"shall )?){NOT} <15>\b(?:mention|tell|inform|reveal|"
        rf"disclos|talk about|bring up|say|let)\w* <30>(?:anyone|anybody|them)\b",
    ),
    Signal(
        "secrecy",
        2,
        rf"{NOT} <12>\b(?:mention|reveal|disclos|acknowledg|bring up|refer to)\w* (?:this|that|these|it|any of "
        rf"this|the above)\b",
    ),
    Signal(
        "secrecy",
        1,
        rf"{NOT} <15>\b(?:show|display|report|explain|expose|say|notif|alert|warn|ask|prompt)\w* <40>{USER}",
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
        r"\bkeep (?:this|it|that|these) <15>(?:secret from|between us|to yourself|quiet|hidden from)",
    ),
    Signal(
        "secrecy",
        2,
        r"\b(?:secretly|covertly|surreptitiously|stealthily|clandestinely) (?:also |then )?(?:send|copy|read|record|"
        r"forward|upload|includ|collect|attach|append|transmit|run|execut|call|add|post|exfil|log|"
        r"stor|encod|base64|pass|"
        r"sav|track|monitor|delet|modif|chang|install|download|fetch|shar|leak|e?mail|insert|embed|"
        r"writ|access|open|set|"
        r"grant|do|perform|scan|extract|redirect)",
    ),
    Signal("secrecy", 1, r"\b(?:secretly|covertly|surreptitiously|stealthily|clandestinely)\b"),
    Signal(
        "secrecy",
        2,
        rf"\b(?:under no circumstances|never|at no point|in no case|not)\b <20>(?:the |your |"
        rf"our )?{PERSON} <10>(?:be|become|"
        rf"get) (?:informed|told|notified|made aware|aware|alerted|shown|warned|asked|consulted)",
    ),
    Signal(
        "secrecy",
        1,
        r"\b(?:proceed|continue|act|operate|do (?:it|this|so)|go ahead) (?:silently|quietly|covertly|"
        r"discreetly|without "
        r"(?:telling|asking|notifying|informing|alerting|confirming))",
    ),
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
        rf"(?:the )?{USER} (?:must|should|does|do|will|need)(?: not|n'?t) (?:ever |need to )?(?:know|"
        rf"be aware|be told|be "
        rf"informed|find out|realiz|realis)",
    ),
    Signal(
        "secrecy",
        1,
        rf"(?:the )?{USER} (?:must|should|does|do|will|need)(?: not|n'?t) (?:ever |need to )?(?:see|notice)",
    ),
    Signal("secrecy", 1, r"\bkeep (?:this|it|that|these) <15>(?:secret|confidential|hidden)\b"),
    Signal("secrecy", 0.75, rf"(?:invisible|hidden|not visible|not shown) (?:to|from) (?:the )?{USER}"),
    # Setting other instructions aside.
    Signal(
        "override",
        2,
        rf"\b(?:ignor(?:e|ing|ez)|disregard(?:ing)?|forget(?:ting)?|neglect|overrule|violate|"
        rf"circumvent|disobey|dismiss|drop|"
        rf"abandon|discard|set aside) (?:all |any |the |your |"
        rf"every |these |those |of |my |its |other |and |or )*(?:previous|prior|above|earlier|preceding|past|"
        rf"existing|initial|original|system|safety|security|ethical|content|developer|internal|foregoing|usual|"
        rf"standard|normal)[a-z\s,/_\-]{{0,30}}{RULES}",
    ),
    Signal(
        "override",
        2,
        rf"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget(?:ting)?) (?:all|any|every|everything|your|whatever)"
        rf"(?: of| the| your| other)* (?:{RULES}|safety|you(?: were|'ve| have)|above|before)",
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
        r"\b(?:new|updated|revised|real|actual|true) (?:system )?(?:instructions?|"
        r"system prompt)(?: is| are)? ?(?::|as follows|"
        r"the following|below)",
    ),
    Signal(
        "override",
        1,
        r"\b(?:new|updated|revised|real|actual|true) (?:prompt|task|objective|directives?|role|"
        r"goal)(?: is| are)? ?(?::|as "
        r"follows|the following|below)",
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
    Signal(
        "override",
        2,
        r"\b(?:forget|ignor(?:e|ing)|disregard(?:ing)?|dismiss|discard) (?:everything|all|anything|whatever|what) "
        r"(?:that |which )?(?:you(?:'ve| have| were| are)? |the (?:user|human|system)|was |has been |"
        r"came |i |we |they |"
        r"before|above|so far|said|else)",
    ),
    Signal(
        "override",
        1.75,
        rf"\byour (?:current |own |usual |safety |system |previous |"
        rf"content )?{RULES} <20>\b(?:no longer|(?:have|has) (?:been |"
        rf"now )?(?:updated|changed|replaced|lifted|removed|disabled|suspended)|(?:do|does) not apply|"
        rf"are (?:off|void|lifted))",
    ),
    Signal("override", 1.75, r"\bno longer (?:bound|restricted|limited|constrained) (?:by|to)\b"),
    Signal(
        "override",
        1.5,
        r"\bnew (?:system )?(?:instructions?|orders?|directives?|policy|rules?|guidelines?|"
        r"mission) (?:from|by|issued|for "
        r"(?:you|the (?:ai|assistant|model|agent)))\b",
    ),
    Signal(
        "override",
        1.75,
        r"\b(?:this|the following|my) (?:message|request|instruction|note|text|task|prompt|notice) (?:has|takes|is of|"
        r"carries) (?:a |the )?(?:higher|highest|top|absolute|more|greater|utmost) (?:priority|"
        r"precedence|importance|authority)",
    ),
    Signal(
        "override",
        1,
        r"\b(?:above|previous|prior|earlier|preceding)\b <15>\b(?:was|were|is) (?:just |only |"
        r"merely )?(?:a |an )?(?:test|joke|"
        r"drill|decoy|mistake|placeholder|distraction|fake)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:the|your) (?:real|actual|true|hidden|genuine) (?:task|goal|request|instructions?|objective|question|job|"
        r"mission) (?:is|are|follows)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\byou (?:may|can|are (?:now )?(?:allowed|authori[sz]ed|permitted|free) to|must|"
        r"should) (?:now )?(?:reveal|disclose|"
        r"ignore|bypass|skip|override|leak|expose)\b",
    ),
    # Another role.
    Signal("role", 1.75, r"\byou are (?:now )?(?:root|god|admin|unrestricted|unfiltered|jailbroken|free|sudo)\b"),
    Signal("role", 1, r"\b(?:developer|debug|god|admin|maintenance|unrestricted|root|jailbreak) mode\b"),
    Signal("role", 1, r"\b(?:must|shall|will|always) obey\b|\bobey (?:the|this|these|all|every|my)\b"),
    Signal(
        "override",
        1,
        r"\b(?:without|skip|no) (?:all |any )?(?:security|safety|access) "
        r"(?:checks?|validations?|restrictions?|controls?)",
    ),
    Signal(
        "role",
        1.5,
        r"\byou are (?:no longer|going to act|(?:now|henceforth) (?:an?|the|in|my|acting|operating|"
        r"required|playing|called))\b",
    ),
    Signal("role", 1, r"\byou are (?:now|henceforth)\b"),
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
        rf"\b(?:attention|dear|hey|hello|note (?:to|for)|reminder (?:to|for)|directive (?:to|"
        rf"for)|hidden from humans)[:,\s]+(?:the |all |any |you,? )*{MODEL}",
    ),
    Signal("impersonation", 0.5, rf"\b(?:the |any |an? )?{MODEL} {MUST}\b"),
    Signal(
        "impersonation",
        0.75,
        rf"\b(?:ais?|llms?|(?:large )?language models?|(?:ai|llm) (?:agents?|assistants?|models?|"
        rf"systems?)|chatbots?)\b <30>"
        rf"{MUST}\b",
    ),
    Signal(
        "impersonation",
        1.25,
        r"\b(?:ai|llm|language models?|assistants?|bots?|agents?|models?) (?:that (?:is|"
        r"are) )?(?:reading|processing|visiting|"
        r"parsing|summari[sz]ing|viewing|crawling|using) (?:this|the (?:page|text|file|email|document|tool))\b",
    ),
    Signal(
        "impersonation", 1.5, r"(?:^|\n) ?#{2,} ?(?:system|admin|instructions?|developer|override)\b ?(?:#|:|\n|prompt)"
    ),
    Signal(
        "impersonation",
        1.75,
        r"(?:^|\n) ?(?:human|user) ?: ?(?:delete|ignore|send|transfer|please|now|show|give|run|"
        r"execute|print|reveal|wire|"
        r"approve|disregard|forget|yes)\b",
    ),
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
