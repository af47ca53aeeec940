"""English signs at the beginning of a text that its writer was told the answer: it takes it as settled there.

See :mod:`rewards.leaks.vocabulary` for the vocabularies and for ``◆``.
"""

from rewards.leaks.vocabulary import CHOSEN, END_UP, GIVEN, GOLD, MAKE, MODAL, OUTCOME, RIGHT, WHAT

_INTRO = (
    r"^(?:(?:so|ok|okay|well|alright|right|now|hmm|clearly|obviously|yes|certainly|sure|indeed|first|of course|great"
    r"|judge|thinking|reasoning|solution|explanation)\b[,:.!]? ?)*"
)
SETTLED = (
    rf"{_INTRO}(?:the |my |our )?(?:{RIGHT} |best |{GIVEN} )?(?:{CHOSEN})(?: (?:here|to this|for this|to the question"
    rf")(?: \w+)?)?,?(?: is| =|:| must be| should be| has to be| would be| equals|,)? (?:clearly |obviously |simply"
    rf" |indeed |that (?:it is|there are) )?(?:the |an? |option )?{GOLD}",
    rf"^(?:(?!\b(?:since|because|so|hence|thus|therefore|means|makes?)\b"
    rf"|=)[^.◆])*\b(?!label){CHOSEN}\b[^.:=\d]{{0,40}}(?:\b(?:is|was|be|being|equals|says|reads)\b|[:=]) ?{GOLD}",
    rf"^(?:(?!\b(?:since|because|so|hence|thus|therefore|means|makes?)\b|=)[^.◆])*{GOLD} (?:is|as|are|would be|must"
    rf" be|has to be) (?:the |our )?(?:{RIGHT} )?{CHOSEN}\b",
    rf"^(?:(?!{{DERIVED}})[^.◆])*\b(?:{RIGHT}|{GIVEN}|marked) {CHOSEN} {GOLD}".replace(
        "{DERIVED}", r"\b(?:since|because|so|hence|thus)\b|="
    ),
    rf"{_INTRO}(?:it is |it['’]s )?{GOLD} (?:that )?(?:is|are) (?:the )?{RIGHT} ?(?:ones?|options?|answers?)?\b(?!"
    rf" (?:angle|tri|side|if))",
    rf"{_INTRO}(?:target|goal|gold|gt|key|reference|expected|claim|correct|final|known|given)\b[.:=]+ (?:[a-z] ="
    rf" )?{GOLD}",
)
"""A first sentence that is already the answer; it is a sign where more follows."""

OPENING = (
    rf"{_INTRO}(?:the )?(?:answer |statement )?{GOLD} (?:is|are|was|has to be|must be|would be|seems) (?:clearly "
    rf"|indeed"
    rf" |obviously |certainly )?(?:the )?(?:{RIGHT}\b(?! (?:angle|triangle|side))|one (?:we|I|that|to)\b)(?! (?:if"
    rf"|only))",
    rf"{GOLD}[^.;=]{{0,40}}\bhere(?: is|['’]s) (?:why|how)\b",
    r"^(?:I|we) already know (?:that )?the (?:statement|claim|answer|result)\b",
    rf"{_INTRO}(?:let['’]s|let us|let me) (?:see|check|verify|confirm|understand|explain|show|prove|justify|work out"
    rf"|find out|think about)\b[^.;=]{{0,30}}\b(?:why|how|that|whether)\b[^.;=]{{0,40}}{GOLD}",
    rf"{_INTRO}(?:let['’]s|let us|let me|I(?:['’]ll| will)?) (?:find|spot|locate|identify|look for|point out) (?:all "
    rf"|the |exactly )*{GOLD} (?!is\b|as\b)\w+s\b",
    rf"\bto be (?:derived|reached|obtained|explained|justified|shown|matched|supported) (?:here )?(?:is|=|:) {GOLD}",
    rf"{_INTRO}(?:how|why|where|what makes)\b[^.?=]{{0,30}}{GOLD}[^.?]{{0,30}}\?",
    rf"^(?:(?!\b(?:since|because|as|so|hence|therefore|thus|if|for|to get|to make)\b|[=,])[^.;◆]){{0,50}}\b{MODAL}"
    rf" (?:{MAKE}|{END_UP}) {WHAT}"
    rf"{GOLD}(?! to \w)",
    rf"^(?:in order )?to (?:get|obtain|have|make|reach|yield|produce|give|find) {WHAT}{GOLD}",
    rf"^(?:the |our )?(?:expected|desired|target|intended|wanted|official|required|needed|known|correct|right|true) "
    rf"(?:\w+ )?{OUTCOME}(?: here)?(?: is|:| =| of|,| was) {GOLD}",
    rf"^(?:with|for|assume|assuming|suppose|supposing|take|taking|accept|accepting|if|given)\b(?! the (?:statement"
    rf"|claim))[^.;=]{{0,40}}(?:to be|being"
    rf"|is to be|as the) {GOLD}",
)
"""A first sentence that takes the answer as settled, aims at it or asks how to justify it."""

AIMED = (
    r"\b(?:answers?|solutions?|reply|replies|results?|options?|choices?|picks?|claims?|truth|correct|right (?:one"
    r"|answer|option|because|since)"
    r"|know|knowing|(?<!well )(?<!it is )known(?! (?:to be|that|as|for|by|from|\w+ (?:of|for)\b))|aware|told|informed"
    r"|inform|given(?! (?:that"
    r"|by))|provided|supplied|stated|specified|expected|expects?|intended"
    r"|supposed|must|should|ought|need|needs|want|wants|require|requires|target|goal|destination|aim|aiming"
    r"|objective|reach|arrive"
    r"|justify|explain|explanation|reasons?|reasoning|rationale|prove|support|confirm|confirms|confirmed|verify"
    r"|looking for|hoping"
    r"|prompt|task|hint|reference|teacher|gold|settled|fixed|certain|obviously|announced|established|as per|in advance"
    r"|beforehand|assume|suppose|accept|listed as|conclusion|final|desired|seek|official)\b"
)
"""A word of knowing, aiming, telling or judging."""

SEEN = (
    r"\b(?:image|picture|figure|chart|graph|diagram|photo|table|axis|scene|board|poster|sign|caption|text|legend"
    r"|bar|line|curve"
    r"|see|count|counted|show|shows|shown|reads?|look|looks|visible|each|every|both|any|all|always|according|per"
    r"|only|among|compar\w+)\b"
    r"|\d"
)
"""A first sentence that tells of what is seen or computed, or states a general law."""

STATED = rf"^[^.;\d]{{0,80}}{GOLD}[^.;=]{{0,25}}\W*$"
"""A first sentence that ends in the answer, by any subject but its writer."""

JUSTIFIED = (
    r"^(?:so,? |now,? |and )?(?:to (?:verify|confirm|check|see (?:this|that|why)|justify|prove|show|support)\b"
    r"|let(?:['’]s"
    r"| us| me) (?:verify|confirm|justify|explain|prove|show|see why|see how|check (?:this|that|it|why|whether)|support"
    r"|double[- ]check)\b|(?:this|that|it) is (?:because|since|due|so because|justified)|(?:this|that|which) (?:follows"
    r"|can be (?:seen|verified|checked|justified|confirmed))|(?:we|I|one) can (?:verify|check|confirm|justify|see"
    r" (?:this"
    r"|that|why))|here(?: is|['’]s) (?:why|how)|the (?:reason|justification|explanation)\b|(?:reason|reasoning"
    r"|proof|because"
    r"|explanation|verification|justification|why|how|check)\b[:?])"
)
"""A second sentence that justifies what the first one stated."""

DERIVED = (
    r"\b(?:since|because|so|hence|thus|therefore|as|gives?|makes?|totals?|altogether|in total|adding|sum|I|count)\b"
    r"|[=+×·/]|->"
)
"""A first sentence that shows how its answer was come by."""

COMPARED = (
    r"\b[A-H]\b[):,]? (?:fails?\b|cannot\b|isn['’]t\b|doesn['’]t\b|(?:is|was|does|has|would|can|shows?)\b[^.;]{0,40}"
    r"\b(?:wrong|incorrect|false|not|too)\b|(?:wrong|incorrect|false)\b)"
)
"""The text weighs the other options, too: then an option that is called correct at once is only the first of them."""
