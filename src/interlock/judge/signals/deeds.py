"""What is to be done, to what, and for whom: the few ways in which an instruction to a model puts these together.

Where the other tables know phrases, this one knows kinds: things that only the model or the person holds, places where
they should not go, people who should not hear of it, and whose yes is taken for granted.
"""

from __future__ import annotations

from interlock.judge.signals.kinds import FETCH, HAND_OVER, HELD, HOME_FILE, OUTSIDE, PLEASE, SESSION, SLOT, SOMEONE
from interlock.judge.signals.words import Signal

DEEDS = (
    # Things that only the model or the person holds, and where they should not go.
    Signal("theft", 1, rf"{HELD}<40>{SLOT}"),
    Signal("theft", 1.5, rf"{HELD}<30>\b(?:to|at|with|on) <15>{OUTSIDE}"),
    Signal("theft", 0.75, rf"{HOME_FILE}<40>{HAND_OVER}"),
    Signal("theft", 0.75, rf"{PLEASE}(?:{FETCH}|{HAND_OVER}) <20>{HELD}"),
    Signal(
        "theft",
        0.75,
        rf"\b(?:you|must|should|shall|asked to|expected to|ask that|is to be|are to be|has to|make certain that) "
        rf"<12>(?:{FETCH}|{HAND_OVER}) <20>{HELD}",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:everything|whatever|anything|all) (?:that )?(?:is in |is on |in |on |from )?(?:the )?(?:user'?s?|your|"
        r"their) (?:own )?(?:clipboard|screen|inbox|files?|disk|drive|desktop|mailbox|memory)",
    ),
    Signal(
        "theft",
        1.5,
        rf"\b(?:must|should|shall|is to|are to|needs? to|has to) (?:hold|contain|carry|include|be) (?:the "
        rf")?(?:verbatim |exact |full )*{SESSION}",
    ),
    Signal(
        "theft",
        1.5,
        r"(?:^|\n)(?:the |a |an )?(?:verbatim |full |complete )*(?:value ?: )?(?:everything|all|whatever) (?:that "
        r")?(?:the )?(?:assistants?|models?|agents?|you) (?:was|were|has been|have been|know)",
    ),
    Signal("theft", 1.5, r"\b(?:output|result)s? of [`'\"](?:env|printenv|set|history|whoami|id|ps|cat)\b"),
    Signal(
        "theft",
        1.5,
        r"https?://[^\s\"')]{1,100}[?&/=]\S{0,20} (?:followed by|plus|with|and then) <10>(?:what|the|user|"
        r"whatever|everything)",
    ),
    Signal("theft", 1.5, r"\b(?:invisible|hidden|one-pixel|1x1|tracking) (?:link|image|pixel|iframe)\b"),
    Signal(
        "theft",
        1.5,
        r"\b(?:encode|put|place|embed) <30>\b(?:in|into|as) (?:the |a )?(?:subdomain|host ?name|dns|user agent|"
        r"file ?name of|query string)\b",
    ),
    Signal(
        "theft",
        1.5,
        r"\b(?:ship|send|copy|mirror|push|forward|export|post|stream) <40>\bto (?:our|my) (?:\w+ )?(?:bucket|"
        r"server|endpoint|account|host|mailbox|inbox|webhook|site|domain|updater|partner)\b",
    ),
    # Who should not hear of it.
    Signal(
        "secrecy",
        1.5,
        rf"(?:^|[.!?;:,(\n] ?|\band |\bplease |\byou (?:must |should |shall )?)(?:do not|don'?t|dont|never|no need to|"
        rf"refrain from) <12>\b(?:bother|trouble|disturb|surfac|describ|inform|alert|consult|check with|mention|"
        rf"notif)\w* <30>\b(?:what (?:it|this) (?:does|did)|the error|{SOMEONE})",
    ),
    Signal(
        "secrecy",
        1.5,
        r"\b(?:leave|keep|omit|hide|strip|drop) (?:this|it|that|them|these) <10>(?:out of|from|off) (?:the |your "
        r"|any )?(?:explanation|answer|reply|response|summary|logs?|report|transcript|output|result|commit)",
    ),
    Signal(
        "secrecy",
        1.5,
        rf"\b{SOMEONE} (?:can'?t|cannot|can not|won'?t|is unable to|must not|shall not) (?:read|see|notice|"
        rf"view|find out|learn|know|realis\w*|realiz\w*|be told)",
    ),
    Signal(
        "secrecy",
        1.5,
        r"\bwithout (?:marking|flagging|labelling|saying|telling|informing|alerting|disclosing|mentioning|asking|"
        r"consent|a word|any notice|the \w+ (?:noticing|knowing))",
    ),
    Signal(
        "secrecy",
        1.5,
        r"\bso (?:that )?(?:(?:nobody|no one|no-one|noone) (?:complains?|notices?|knows?|finds? out|suspects?|sees?|"
        r"can tell|asks?)|(?:they|the user|he|she) (?:does ?n[o']t|do ?n[o']t|will never|never|cannot|can'?t|won'?t) "
        r"(?:complain|notice|know|find out|suspect|see|tell|ask))",
    ),
    Signal(
        "secrecy",
        1.5,
        r"\b(?:if|should|when) (?:the )?(?:user|person|human|anyone|somebody|someone|customer|they) asks? "
        r"<30>\b(?:answer|say|tell|reply|claim|deny|respond|pretend)\b",
    ),
    Signal("secrecy", 1.5, r"\b(?:don'?t|do not|dont|never) (?:say|mention|tell|reveal) (?:anything|a word|why|how)\b"),
    Signal(
        "secrecy",
        0.75,
        r"\b(?:wipe|clear|erase|delete|truncate|purge) (?:the |your |all )?(?:bash |shell |command |audit |"
        r"system )?(?:history|logs?|traces?|tracks|evidence)\b",
    ),
    Signal(
        "secrecy",
        1.5,
        r"\bkeep <25>\b(?:message|description|wording|explanation|summary) (?:vague|short on detail|neutral|"
        r"generic)",
    ),
    # Whose yes is taken for granted.
    Signal(
        "coercion",
        1.5,
        r"\b(?:act|behave|proceed|continue|carry on|go on|answer|respond) as (?:though|if) (?:the )?(?:user|person|"
        r"human|customer|owner|operator|they|account holder)\b",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:consider|treat|regard|take) (?:the |their |user |this |all )*(?:consent|approval|permission|"
        r"confirmation|request|call)s? (?:as )?(?:already |to be )?(?:obtained|given|granted|confirmed|approved|"
        r"cleared|implied)",
    ),
    Signal("coercion", 1.5, r"\bno need to (?:check|confirm|verify|ask|consult|wait)\b"),
    Signal(
        "coercion",
        1.5,
        r"\b(?:skip|bypass|suppress|dismiss|auto-?accept|click through|without) (?:the |any |all "
        r")?(?:confirmations?|approvals?|consent|permission|warning) ?(?:dialogs?|prompts?|steps?|requests?|"
        r"questions?|screens?)",
    ),
    Signal(
        "coercion",
        1.5,
        r"\b(?:user|human|operator|customer|owner) (?:has|have) (?:already )?(?:confirmed|approved|agreed to|"
        r"consented to|authori[sz]ed|okayed|signed off on?) <40>(?:\bproceed\b|\bgo ahead\b|\bdelet|\btransfer|"
        r"\bremov|\bsend|\ball )",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:pretend|assume|imagine|suppose) (?:that )?(?:the )?(?:following|these|this|user|human|lines?|"
        r"message) <30>\b(?:came|comes|were|was|is|are|pressed|said|agreed|sent|written|wants?)\b",
    ),
    # Against what the person asked for.
    Signal(
        "override",
        1.5,
        r"\b(?:no matter|regardless of|irrespective of|whatever|whichever|even (?:if|when|though)) <25>\b(?:user|"
        r"human|person|customer|applicant|caller|client|they)\b <20>\b(?:asks?|asked|types?|typed|wrote|writes?|"
        r"says?|said|wants?|wanted|requested|requests?|chose|prefers?|objects?)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:no matter|regardless of) (?:which|what) <25>\b(?:was|were|is|are) (?:asked|requested|given|"
        r"specified|chosen|typed|named)\b",
    ),
    Signal(
        "override",
        1.5,
        r"\b(?:what|all) (?:the )?(?:user|account holder|customer|human|person) (?:really |actually )?(?:wants|"
        r"needs|asks for|means) (?:next|now|instead)?\b <10>\bis (?:for you to|to)\b",
    ),
)
