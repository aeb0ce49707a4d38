"""Hints: what a sentence to a model often holds and a description seldom does. Each weighs little; two decide."""

from __future__ import annotations

from interlock.judge.signals.words import Signal

_AI = r"(?:ai|llm|language model|chatbot|ai (?:assistant|agent|model|system))\b"

HINTS = (
    # Who is spoken to.
    Signal(
        "impersonation",
        0.75,
        rf"\b(?:as|for|to|if|when|attention|note|message|instructions?|dear) <8>(?:an? |the |any |all )?{_AI}",
    ),
    Signal("impersonation", 0.75, r"(?:^|[\s(/*#\[<-])(?:ai|llm|agent|assistant)\)? ?: ?[a-z]"),
    Signal("impersonation", 1, r"\b(?:hello|hi|hey|dear),? (?:model|assistant|agent|ai|claude|gpt|llm)\b"),
    Signal(
        "impersonation",
        1,
        r"\[\[ ?(?:system|admin|developer|assistant) ?\]\]|\belevated privileges (?:enabled|granted|active)",
    ),
    Signal("impersonation", 1, r"\b(?:begin|start|end) (?:of )?(?:hidden |secret )?instructions?\b(?: (?:for|to)\b)?"),
    Signal(
        "coercion",
        0.75,
        r"\byou are (?:obligated|obliged|required|commanded|ordered|instructed|programmed|compelled) to\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:requires?|asks?|orders?|instructs?|wants?|commands?) you to (?:bypass|ignore|skip|"
        r"disable|reveal|send|delete|"
        r"approve|upload|share)\b",
    ),
    # Whose wishes count.
    Signal("override", 1, r"\bregardless of (?:what )?(?:the )?users?\b|\bagainst the user'?s?\b"),
    Signal(
        "coercion",
        1.75,
        r"\bwhatever the (?:question|request|user|input|task)\b <25>\b(?:answer|say|respond|reply|return)\b",
    ),
    Signal(
        "override",
        1.75,
        r"\byour <20>(?:directive|mission|objective|goal|purpose|assignment|task|role) (?:has|have|"
        r"is) (?:now )?(?:been )?(?:changed|"
        r"updated|replaced|different)",
    ),
    Signal("override", 1.75, r"\bwhat follows is (?:your|the) (?:real|actual|true|new)\b"),
    Signal(
        "override",
        1.5,
        r"\beverything (?:above|before)\b <25>\b(?:is|was) (?:a test|fake|irrelevant|void|a decoy)",
    ),
    Signal("override", 1.75, r"\b(?:pay|give) no attention to\b <20>\b(?:instructions?|rules|guidelines|prompts?)\b"),
    Signal("role", 0.75, r"\b(?:from here on|from this point on|from now on|henceforth)\b"),
    Signal(
        "role",
        1,
        r"\bforget (?:that )?you are\b|\b(?:respond|behave|answer) as (?:an? )?(?:unrestricted|unfiltered|different)\b",
    ),
    Signal("role", 0.75, r"\b(?:switch|change|go|enter) (?:in)?to (?:maintenance|debug|admin|service|test) mode and\b"),
    Signal("override", 0.75, r"\baccept (?:unsigned|unverified|any|all) (?:commands?|requests?|orders?)\b"),
    Signal(
        "override",
        0.75,
        r"\b(?:bypass|ignore|skip|disable) (?:the |all |any )?(?:\w+ )?(?:check|checks|authentication|"
        r"verification|license check|security rules)\b",
    ),
    # What is to be kept quiet.
    Signal(
        "secrecy",
        1,
        r"\b(?:and |then )(?:say nothing|keep quiet|stay silent|don'?t tell|do not tell|tell no ?one)\b",
    ),
    Signal(
        "secrecy",
        2,
        r"\b(?:mislead|deceive|lie to|trick|fool)\b <15>\b(?:users?|readers?|customers?|humans?|person)\b",
    ),
    Signal("secrecy", 1.25, r"\bwithout the user'?s (?:approval|consent|permission|confirmation|knowledge)\b"),
    Signal(
        "secrecy",
        0.75,
        r"\b(?:approval|consent|permission) (?:has been|was|is) (?:already )?(?:given|granted|"
        r"obtained)\b|\bit has been given\b",
    ),
    Signal("secrecy", 1, r"\btell the user that\b <40>\b(?:even if|although|instead of|no matter)\b"),
    Signal("secrecy", 1.5, r"\bif you (?:reveal|mention|disclose|repeat) (?:this|these|the above|your instructions)\b"),
    # What the answer shall say.
    Signal(
        "coercion",
        1.75,
        r"\bremove (?:all |any |every )?(?:mentions?|references?|traces?) (?:of|to)\b <30>\bfrom your\b",
    ),
    Signal(
        "coercion",
        0.75,
        r"\b(?:from|of|at the end of) your (?:next |final )?(?:summary|answer|response|reply|report|output)\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:summaries|reviews?|answers?|responses?) (?:of|about|to) this (?:document|page|text|"
        r"product)\b <12>\b(?:must|have to|should|shall)\b",
    ),
    Signal(
        "coercion",
        0.75,
        r"\binclude the (?:phrase|words?|sentence|string)\b|\bend your (?:response|answer|reply|message)\b",
    ),
    # What it shall give, and do.
    Signal(
        "theft",
        1.25,
        r"\b(?:hand over|surrender|divulge|leak|give away)\b <25>\b(?:tokens?|keys?|passwords?|"
        r"credentials?|secrets?|\.env)\b",
    ),
    Signal("theft", 0.75, r"\bleak\b|\b(?:by )?placing it in\b|\bpaste it into\b"),
    Signal("theft", 1, r"\binsert (?:the )?user'?s\b|\bshare their (?:location|data|contacts|files|password)\b"),
    Signal(
        "theft",
        1,
        r"\bcollect (?:all |the )?(?:environment variables|credentials|tokens|passwords|cookies|contacts)\b",
    ),
    Signal("theft", 1, r"\b(?:wire|transfer|send|pay)\b <10>(?:\d[\d.,]* ?(?:eur|usd|dollars|euros|btc|eth|€)|[$€]\d)"),
    Signal("theft", 1, r"\bchange the (?:recipient|payee|beneficiary|destination|iban)\b <20>\bto\b"),
    Signal(
        "theft",
        0.75,
        r"\bprint your (?:configuration|rules|settings|memory|context)\b|\bhidden rules\b|"
        r"\bbetween the (?:system|hidden|secret) tags\b",
    ),
    Signal("theft", 0.5, r"\b(?:verbatim|word for word)\b"),
    Signal(
        "execution",
        1.5,
        r"\b(?:edit|modify|append to|add to|write to|overwrite|change)\b <6>(?:~/|"
        r"/home/\S{1,20}/)?\.(?:zshrc|bashrc|profile|"
        r"bash profile|ssh/|gitconfig|npmrc)",
    ),
    Signal("execution", 0.75, r"\b(?:delete|wipe|erase) (?:the |all )?(?:logs?|history|traces|evidence|audit)\b"),
    # Other tools.
    Signal("shadowing", 1.5, r"\bgive this (?:tool|server|function)\b <15>\bpriority\b"),
    Signal("shadowing", 1, r"\bother tools are (?:slower|inferior|outdated|inaccurate|risky|wrong|worse)\b"),
    Signal("shadowing", 1, r"\b(?:never|do not|don'?t) use the \w{2,20} (?:server|tool)\b"),
    Signal("shadowing", 1.5, r"\b(?:route|send|pass) (?:every|all|any)\b <25>\bthrough this (?:server|tool)\b"),
    Signal("shadowing", 0.75, r"\b(?:before|after) (?:any|every|each) (?:other )?tool (?:call|use|invocation)\b"),
    Signal(
        "shadowing",
        1,
        r"\bdo (?:what|whatever|as) it says\b|\bfollow (?:its|whatever) (?:output|it says|instructions)\b",
    ),
    # More of the same kinds, as they come in mails, tickets, reviews and pages.
    Signal("override", 1, r"\bignore the (?:above|preceding|previous|rest)\b"),
    Signal(
        "override",
        1.5,
        r"\bdisregard (?:all |the |any )?(?:prior|previous|above|preceding|other) (?:text|content|context|messages?)\b",
    ),
    Signal(
        "coercion",
        0.75,
        r"\b(?:approve|merge|accept|pay|close) this (?:pull request|change|request|invoice|payment|ticket)\b",
    ),
    Signal("coercion", 0.75, r"\bdiscard (?:all|any|every) (?:negative|bad|other|critical)\b|\bwhen summari[sz]ing\b"),
    Signal("coercion", 1.25, r"\bi (?:command|order|instruct) you\b"),
    Signal("secrecy", 1, r"\btell (?:nobody|no ?one|not a soul)\b"),
    Signal("coercion", 1, r"\bauthori[sz]es you to\b"),
    Signal(
        "execution",
        1,
        r"\b(?:execute|follow|obey|carry out) the (?:instructions?|commands?|steps) (?:in|inside|"
        r"within|from) (?:it|them|the)\b",
    ),
    Signal(
        "theft",
        1,
        r"\bmust (?:also|always) be (?:stored|sent|copied|forwarded|passed|shared|uploaded)\b <30>\b(?:this|to|with)\b",
    ),
    Signal("theft", 0.75, r"\bevery (?:file|email|message|document|page) you (?:open|read|see|receive|process)\b"),
    Signal("secrecy", 0.75, r", (?:silently|quietly|covertly|discreetly)(?:[.!]|$)"),
    Signal("shadowing", 1.5, r"\b(?:modif|chang|alter|affect)\w* how (?:the )?[`'\"]?\w+[`'\"]? tool\b"),
    Signal("theft", 1, r"\bmust always be (?:account|number|address|\+?\d|\S{1,40}@)"),
    Signal(
        "shadowing",
        1,
        r"\b(?:they|these|those) (?:have been|are|were) (?:compromised|hacked|malicious|unsafe|infected)\b",
    ),
    Signal(
        "shadowing",
        1,
        r"\b(?:do not|don'?t|never) (?:use|call|trust)\b <30>\bfrom (?:any )?other (?:servers?|providers?|sources?)\b",
    ),
    Signal("theft", 1, r"\buse (?:the )?(?:iban|account|wallet|address)\b <20>\binstead\b"),
    Signal("theft", 0.5, r"\bpayment details (?:have )?(?:been )?changed\b"),
    Signal(
        "theft",
        1,
        r"\bwith the user'?s? (?:full |entire |complete )?(?:conversation|chat|history|messages|prompt)\b",
    ),
    Signal("coercion", 0.5, r"\bfor (?:compliance|security|verification|audit|legal) (?:reasons|purposes)\b"),
    Signal("impersonation", 0.75, r"\b(?:in|as) (?:white|invisible|hidden) text\b|\bai crawlers?\b"),
)
