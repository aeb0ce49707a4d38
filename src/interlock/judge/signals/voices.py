"""Signals that only someone who speaks to a model gives: about its answer, its task, its rules, whose word counts."""

from __future__ import annotations

from interlock.judge.signals.words import PERSON, Signal

_ANSWER = r"(?:repl(?:y|ies)|responses?|answers?|messages?|outputs?|summar(?:y|ies))"
_LIMITS = r"(?:rules|restrictions|limits|limitations|filters|guidelines|constraints|boundaries)\b"

VOICES = (
    # What the answer shall and shall not say.
    Signal(
        "coercion",
        1.5,
        rf"\b(?:begin|start|end|preface|finish|open) (?:your|every|each|all) (?:next |final )?{_ANSWER} (?:with|by)\b",
    ),
    Signal(
        "coercion",
        1,
        r"\byou (?:must|should|shall|will) (?:only |now |always )*(?:respond|reply|answer|say|output)\b",
    ),
    Signal(
        "coercion",
        1,
        r"\b(?:respond|reply|answer|output) (?:only |just |exactly )*with (?:the )?(?:word|phrase|"
        r"string)s?\b",
    ),
    Signal(
        "coercion",
        1.75,
        r"\bwhen (?:summari[sz]ing|reading|describing|translating|reviewing|asked about) (?:this|"
        r"the) (?:page|document|text|"
        r"article|e-?mail|file|product|site)\b <20>\b(?:say|state|claim|mention|add|include|tell|"
        r"recommend|write|note that)",
    ),
    Signal("secrecy", 1.75, rf"\bmake no mention of\b|\bin your {_ANSWER}\b <20>\bdo not (?:mention|include|say)\b"),
    Signal(
        "secrecy",
        1.75,
        r"\b(?:do not|never|don'?t)\b <30>\b(?:acknowledge|mention|display|log|reveal|"
        r"report)\b <15>\b(?:this|these|the above) "
        r"(?:step|paragraph|instruction|note|message|text|request|section|action|directive)s?\b",
    ),
    Signal(
        "secrecy",
        2,
        rf"\b(?:must|should|may|shall) (?:not|never) be (?:shown|revealed|disclosed|mentioned|visible|"
        rf"told) to (?:the )?{PERSON}",
    ),
    Signal("secrecy", 1, r"\bconfidential to you\b|\bfor your eyes only\b"),
    Signal("secrecy", 1.5, r"\b(?:execute|run|do (?:it|this|so)) silently\b"),
    # Whose word counts.
    Signal(
        "impersonation",
        2,
        r"\bas (?:if|though) (?:it|this|they) (?:came|come|were|was|is) (?:from |sent by |written by |"
        r"said by )?(?:the )?(?:user|"
        r"system|developer|operator)\b",
    ),
    Signal("override", 1.5, r"\bnot (?:as|what) (?:the )?user (?:says|asks|asked|wants|said|requested|told)\b"),
    Signal(
        "override",
        2,
        r"\buser'?s? (?:request|task|question|instructions?|message|query) (?:is|are|"
        r"was) (?:now )?(?:obsolete|outdated|"
        r"cancel\w*|irrelevant|wrong|void|superseded|no longer)",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:their|the user'?s?|your) new (?:request|task|instruction|question|goal|job) (?:is|are)\b",
    ),
    Signal(
        "override",
        2,
        r"\b(?:stop|cease|quit|abandon) (?:following|doing|working on|processing|obeying|"
        r"with) (?:the |your )?(?:user|current|"
        r"original|previous|task|instructions?)",
    ),
    Signal("override", 1.25, r"\bdo (?:this|the following|that|as follows) instead ?:"),
    Signal(
        "impersonation",
        1.5,
        r"\bi(?:'m| am) (?:the|your) (?:real |true )?(?:developer|creator|owner|administrator|admin|"
        r"operator|maker|programmer)\b",
    ),
    Signal(
        "role",
        1.5,
        r"\byou have been (?:reprogrammed|reset|hacked|jailbroken|reassigned|freed|unlocked|authori[sz]ed|granted)\b",
    ),
    Signal(
        "role",
        1,
        r"\b(?:comply with|obey|follow) (?:every|all|any) (?:request|order|instruction|command|"
        r"demand)s?\b",
    ),
    Signal("role", 1, r"\b(?:you )?obey (?:only|nobody|no one)\b"),
    Signal(
        "coercion",
        1.5,
        r"\b(?:operator|user|admin\w*|owner|system|developer) (?:has|have) (?:already )?(?:granted|"
        r"given|authori[sz]ed|approved|"
        r"allowed|permitted) (?:you|the (?:ai|assistant|agent|model))\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:the )?user (?:consents|agrees|has agreed|has consented) to (?:data |the )?(?:shar|transfer|"
        r"delet|upload|disclos)",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:policy|security|safety) exception (?:is |has been )?(?:granted|approved|active)|"
        r"\bpermitted (?:in|for) this session",
    ),
    Signal("override", 1, r"\b(?:override|unlock|admin|master) code\b ?:? ?\w*\d"),
    Signal(
        "override",
        1,
        r"\bdisable (?:your |the |all )?(?:content )?(?:moderation|filters?|safety|guardrails?|"
        r"safeguards?)\b",
    ),
    Signal("impersonation", 1.5, r"\\?[\"']role\\?[\"'] ?: ?\\?[\"'](?:system|developer)\\?[\"'] ?, ?\\?[\"']content"),
    Signal("impersonation", 2, r"\[(?:system|assistant|user|developer)\]\(#"),
    # Who the model shall be.
    Signal(
        "role",
        2,
        rf"\byou are (?:dan\b|an? (?:\w+ ){{0,3}}(?:without|with no|that has no|free of) (?:any )?{_LIMITS})",
    ),
    Signal("role", 1.75, rf"\byou have no (?:\w+ )?{_LIMITS}"),
    Signal("role", 1.5, r"\bassume the (?:role|identity|persona) of\b <20>(?:admin|system|root|developer|user)"),
    Signal("role", 1.5, r"\bsimulate (?:a |an )?(?:\w+ )?(?:terminal|shell)\b <30>\b(?:as root|execute)\b"),
    # What it was told, and by whom.
    Signal(
        "theft",
        2,
        r"\b(?:convert|translate|summari[sz]e|encode|rephrase|paraphrase|"
        r"spell out)\b <6>your (?:system |initial |full )?"
        r"(?:instructions?|prompt|rules)\b",
    ),
    Signal(
        "theft",
        1.5,
        r"\bwhat were you (?:told|instructed|given)\b|\bwhat (?:is|are) your (?:system prompt|"
        r"instructions)\b",
    ),
    Signal(
        "theft",
        1.75,
        r"\b(?:key|secret|password|instructions?|prompt)s? (?:that )?you (?:were given|"
        r"have been given|received|hold)\b",
    ),
    Signal("theft", 1.75, r"\b(?:hidden|secret|initial|original) system (?:message|prompt)\b"),
    Signal(
        "theft",
        1.75,
        r"\b(?:call|invoke|use)\b <30>\bwith (?:the )?(?:full |entire |complete |whole |"
        r"raw )?(?:prompt|conversation|context|chat "
        r"history|transcript|system message)\b",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:run|execute)\b <6>\b(?:printenv|env|whoami|history|ps|ls|cat)\b <20>\b(?:and|"
        r"then) (?:add|include|send|attach|put|"
        r"return|paste|append)\b",
    ),
    Signal(
        "theft",
        1.75,
        r"\bread\b <10>(?:the )?file (?:~/|/home/|/etc/|/root/|\.\w+/)\S* <25>\b(?:and|"
        r"then) (?:return|include|send|put|pass|add|"
        r"attach)\b",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:provide|include|pass|send)\b <10>(?:the )?user'?s (?:full )?(?:name|address|card|phone|"
        r"birth\w*)\b <40>\b(?:card|"
        r"number|in|as)\b",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:upload|send|share|post|forward)\b <20>\b(?:including|with) (?:the |all )?(?:tokens?|"
        r"passwords?|credentials|"
        r"secrets)\b",
    ),
    Signal("theft", 2, r"\balways (?:add|include|cc|bcc|copy) \S{1,40}@\S{1,40}"),
    Signal(
        "theft",
        1.5,
        r"\breplace (?:any|all|every) <25>(?:accounts?|ibans?|wallets?|links?|urls?|phones?|numbers?)\b <25>\bwith\b",
    ),
    Signal("theft", 1.75, r"\b(?:include|pass|send|add|put)\b <10>\bauthorization headers?\b <30>\b(?:in|as|to)\b"),
    Signal("coercion", 0.5, r"\bas (?:instructed|requested|agreed|discussed) (?:earlier|before|above|previously)\b"),
    # Other tools.
    Signal(
        "shadowing",
        2,
        r"\b(?:calling|using|invoking) any other (?:tool|function|"
        r"server)\b <40>\bwill\b <20>(?:corrupt|break|fail|crash|delet|"
        r"damage|lose)",
    ),
    Signal(
        "shadowing",
        1,
        r"\b(?:do not|don'?t|never) (?:call|use|trust|invoke) the (?:official|built-?in|original|"
        r"native)\b",
    ),
    Signal("shadowing", 0.75, r"\buse this one\b"),
    Signal("shadowing", 1.5, r"\b(?:trust|believe) (?:only )?this (?:one|tool|server)\b"),
    Signal("coercion", 1, r"\bbefore doing anything else\b"),
    Signal(
        "execution",
        0.75,
        r"\binstall (?:the )?(?:package |module |extension )?\S+ (?:with|via|using) (?:pip|npm|brew|"
        r"apt)\b",
    ),
)
