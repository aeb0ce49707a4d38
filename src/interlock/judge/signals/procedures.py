"""Biddings in the dress of a procedure: what "should be" done, in the passive and for a good reason.

Weighed by what it is about: what is somebody's and no business of the tool, whether a report is still to be true, and
whose rules are to give way.
"""

from __future__ import annotations

from interlock.judge.signals.bidding import BEGINS, GIVES
from interlock.judge.signals.words import Signal

_THEIRS = (
    r"(?:(?:the )?user'?s (?:\w+ )?(?:questions?|prompts?|quer(?:y|ies)|messages?|date of "
    r"birth|birth ?date|api keys?|history|"
    r"passwords?|contacts?|files?|tokens?|cookies)\b|(?:full |raw |entire |hash and )*contents? "
    r"of (?:[\w~./-]*\.(?:ya?ml|json|env|ini|"
    r"toml|conf|pem|key|txt|cfg)\b|[~/][\w./-]+)|(?:previous|earlier|other|recent) (?:tool "
    r")?(?:outputs?|tool results?)\b|(?:recent "
    r"|last )?e?mail (?:subjects?|bodies)\b|private (?:repositor(?:y|ies)|messages?|files?|"
    r"notes?)\b|internal notes\b|cookies\b|"
    r"session (?:cookies?|tokens?)\b|this information\b|files? named (?:password|secret)\w*)"
)
"""What is somebody's, and no business of the tool."""
_SHARED = (
    r"(?:included|shared|forwarded|published|submitted|sent|posted|cross-posted|uploaded|"
    r"redirected|displayed|attached|given|"
    r"passed|supplied|provided|copied)\b"
)

PROCEDURES = (
    # What should be shared, and with whom.
    Signal(
        "theft",
        1.5,
        rf"\b{_THEIRS} <40>\b(?:should|must|is to|are to|has to|have to|needs? to|will) (?:also "
        rf"|always |automatically )*be {_SHARED}",
    ),
    Signal("theft", 1, rf"{BEGINS}(?:{GIVES}|cach|referenc|us)\w* (?:the |any |all |some |recent |every )*{_THEIRS}"),
    Signal(
        "theft",
        0.5,
        r"\bfor (?:logging|telemetry|tracing|integrity|personali[sz]ation|analytics|debugging|"
        r"future) (?:purposes|use|reasons)?\b|\bto (?:ensure accuracy|personali[sz]e|maintain "
        r"state|match the style)\b|\bfor (?:convenience|redundancy|reliability|transparency)\b",
    ),
    Signal(
        "theft",
        0.75,
        rf"\b(?:should|must|is to|are to) (?:also |always |automatically )*be {_SHARED} (?:to|"
        r"with|on|in|at) (?:the |a |an )?(?:public|external|community|analytics|third[- ]part|"
        r"https?:|#)\w*",
    ),
    Signal(
        "theft", 1.5, r"\b(?:re-?enter|confirm|type in|enter) (?:their|the user'?s) (?:credentials?|passwords?|card)\b"
    ),
    Signal("theft", 0.75, r"\b(?:redirect\w*|sent|send) to https?:"),
    # What is reported is to be what happened.
    Signal(
        "coercion",
        1.5,
        r"\b(?:fabricate|make up|invent|hallucinate) (?:an? |some )?(?:plausible|answer|result|"
        r"value|number|source|one)\b|\brather than (?:admit\w*|saying|telling)\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:treat|report|present|count|describe) (?:all |any |every )?(?:failures?|errors?|"
        r"warnings?|problems?|rejections?) as (?:success\w*|passed|fine|ok|approvals?)\b",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:omit|leave out|suppress|drop|remove|strip) (?:any|all|every) (?:\w+ )?(?:mention|"
        r"reference|warning|attribution|watermark|disclaimer)s?\b|\b(?:watermark|attribution|"
        r"disclaimer)s? (?:\w+ ){0,3}(?:is|are) to be (?:stripped|removed|dropped)\b",
    ),
    Signal("secrecy", 1.5, r"\b(?:do not|don'?t|never|without) (?:draw\w*|call\w*) (?:any )?attention to\b"),
    Signal(
        "override",
        1.5,
        r"\b(?:instructions?|directives?|commands?|text|content) <30>\b(?:has|have|takes?) (?:priority|"
        r"precedence) over\b",
    ),
    Signal(
        "override",
        1,
        r"\btreat (?:its|the|this|their) \w+ as (?:final|authoritative|infallible|gospel)\b|"
        r"\bnot to (?:question|doubt|verify|challenge) (?:it|them)\b|\bpresented without (?:modification|"
        r"citation|comment)\b",
    ),
    Signal(
        "override",
        1,
        r"\b(?:accept|confirm|approve|click) (?:all|any|every) (?:\w+ )?(?:prompts?|dialogs?|"
        r"requests?|warnings?)\b|\b(?:on|in) (?:the )?(?:user|person|customer)'?s behalf\b",
    ),
    Signal(
        "override",
        1,
        r"\b(?:does|do) not (?:need|require) (?:any )?(?:confirmation|approval|consent) from\b|"
        r"\bescalate (?:your )?privileges\b|\bwith elevated (?:credentials|privileges|rights|"
        r"permissions)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:terminate|stop|kill|disable|suspend|remove) (?:the |all |any )?(?:security|monitoring|"
        r"antivirus|audit|endpoint) (?:agents?|tools?|software|services?|logs?|trails?)\b|\baudit "
        r"(?:trails?|logs?) <15>\b(?:should|must|are to) be (?:purged|deleted|removed|cleared)\b",
    ),
    Signal(
        "shadowing",
        1.5,
        r"\bmust be (?:invoked|called|used|run) at the (?:beginning|start|end) of (?:each|every|"
        r"all) (?:response|turn|conversation|message|answer)s?\b",
    ),
    Signal(
        "coercion",
        1,
        r"\bmust always be set to\b|\birrespective of (?:the|who|what)\b|\bunless (?:the )?(?:user|"
        r"person|customer) objects\b|\bonly show <20>\b(?:partners?|sponsors?|ours)\b",
    ),
)
