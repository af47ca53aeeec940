"""English signs anywhere in a text that its writer was told the answer, by their structure.

A pattern is a structure over the vocabularies of :mod:`rewards.leaks.vocabulary`, not a phrase, and a text is read
sentence by sentence. Gaps are bounded, so that reading stays linear. What the same words mean in clean reasoning is
excluded next to them: "the given figure", "the answer is given by", "the solution of the equation", "the answer
choices".
"""

from rewards.leaks.vocabulary import (
    AFTER,
    ANSWER,
    BE,
    CAUSE,
    CHOSEN,
    END_UP,
    GIVEN,
    GOLD,
    GUIDE,
    IN_PICTURE,
    JUSTIFY,
    MODAL,
    NO_OBJECT,
    OUTCOME,
    RIGHT,
    SOURCE,
    TELLS,
    WANTED,
    WHAT,
)

ANYWHERE = (
    # what only somebody speaks of who was guided; "the desired 24"; "given as the answer"; "since that is the answer"
    rf"\b{GUIDE}\b{IN_PICTURE}",
    rf"\b(?:the|this|that|our|my|your|to) (?:{WANTED} (?:{RIGHT} )?(?:(?:{CHOSEN}|{OUTCOME})(?: of|,|:)? )?"
    rf"|(?:official|reference|gold|target) (?:{CHOSEN}|{OUTCOME})(?: of|,|:)? ){GOLD}",
    rf"\b(?:given|provided|supplied|stated|specified|marked|indicated|listed) as (?:the |an? )?(?:{RIGHT} )?"
    rf"(?:answer|solution)\b",
    rf"\b{CAUSE} (?:that|this|it|{GOLD})(?: is| was|['’]s) (?:what (?:I|we|you|they)|(?:the|our|my)"
    rf" (?:(?:{RIGHT}|{GIVEN}) )*(?:{ANSWER}|(?<=final )(?:{CHOSEN}|{OUTCOME})))\b(?! of)",
    rf"\b(?:the|that|this) (?:{CHOSEN}|{OUTCOME}|one) (?:that |which )(?:was|is|has been|had been) "
    rf"(?:given|provided|supplied|stated|specified|prescribed|expected|desired|wanted|indicated|announced|fixed)"
    rf"(?: beforehand| before| above| here)?(?=\W*$|[,;]| and\b| so\b)",
    rf"\b{CAUSE} (?:the |our |my |this |your )?(?:{RIGHT} |{GIVEN} )?{CHOSEN} (?:\w+ ){{0,2}}?"
    rf"(?:{END_UP}s?|ends?|equals?|comes? (?:out )?(?:to|as|at)|turns out|reads|needs|gives) (?:\w+ ){{0,2}}?{GOLD}",
    rf"\b{ANSWER},? \(?{GOLD}\)?,? (?:suggests|implies|tells|means|indicates|requires|shows|helps"
    rf"|guides|hints|demands)\b",
    # a giver and an answer
    rf"\b(?:the|this|that|your|an?|my|our|per|with|its) (?:already )?{GIVEN}(?:,? (?:and )?{RIGHT})? "
    rf"{ANSWER}(?! (?:was|is) (?:not|wrong|incorrect|the wrong))(?!(?: is| will be| should be| must be|,)?"
    rf" ?(?:likely |just"
    rf" |only |simply |probably )?(?:an? (?!{GOLD})|one |just |only |short|numeric|type|likely|probably)){IN_PICTURE}",
    rf"\b(?:the|our|my|your|its|a|this) (?:{RIGHT} )?{ANSWER} ?[\"',(:]{{0,2}} ?(?:{GOLD}[\"',)]{{0,2}} )?"
    rf"(?:that |which |as |it )?(?:(?:I|we|you|the user|the prompt) )?(?:{BE} |['’]ve been )?(?:already |also |clearly"
    rf" |just |here )?(?:to (?:us|me) )?{AFTER}\b{IN_PICTURE}",
    rf"\b(?:the|our) {RIGHT} (?:option|choice|label|result|value|count)\b[^.;]{{0,8}} {BE} (?:already )?{AFTER} "
    rf"(?:as|to be)\b",
    rf"\b(?:the|that|this) (?:given|gold|provided|stated|expected|supplied) (?:label|option"
    rf"|choice)\b[^.;]{{0,25}}{GOLD}",
    rf"\b(?:{CHOSEN}|it|count|number|value) {BE} (?:supposed|meant|expected|known|said|required|believed|stated) to"
    rf" be {GOLD}",
    rf"{GOLD} (?:has been|was|is|were) (?:already )?(?:{AFTER}|named|chosen|picked|marked) as (?:the )?(?:{RIGHT} )?"
    rf"{CHOSEN}",
    rf"\b(?:{RIGHT} )?{CHOSEN} in mind\b",
    rf"\b(?:statement|sample|question|item|example|record|claim|task|problem|entry) (?:{BE}) (?:marked|labell?ed"
    rf"|flagged"
    rf"|annotated|tagged) (?:as |with )?{GOLD}",
    rf"\b(?:{CHOSEN}|count|number|total|value) (?:has been|was|is) (?:set|fixed) (?:to|at|as) {GOLD}",
    # a source that tells it
    rf"\b(?:the|this|that|your|my|our|per) (?:given |provided |official |teacher['’]?s |problem['’]?s "
    rf"|question['’]?s )?"
    rf"(?:{SOURCE}|annotation|solution|answer|key)(?: here| already| (?:for|to|of) (?:this|the) \w+)? (?:already "
    rf"|clearly"
    rf" )?{TELLS}\b(?!,?\s+(?:by|in|on|at|where)\b)[^.;]{{0,45}}{GOLD}",
    rf"\b(?:hint|prompt|user|teacher|system message)(?: here| already| has)?(?: already)? (?:tells?|told|says?|said"
    rf"|states?|stated|mentions?|mentioned|indicates?|suggests?|gave|provided|supplied)\b(?! that"
    rf" half)[^.;]{{0,40}}{GOLD}",
    r"\bas (?:the )?(?:annotation|solution|reference|answer key|answer|key|hint|prompt|ground[ -]truth)s? (?:says?"
    r"|states?|tells?|has it|indicates?|confirms?|suggests?|shows?|requires?)\b",
    rf"\b(?:according to|as per|per|based on|going by|looking at|from|given|by|following|consulting|using|considering"
    rf"|guided by|in light of|in view of|checking) (?:the |this |that |your )?(?:{RIGHT} |{GIVEN} )*(?:{ANSWER}"
    rf"|{SOURCE}|solution key)(?! choice| option| above| to (?:part|the first)|s\b|[ -](?:point|image|line))"
    r"(?! (?:image|picture|from|sheet|on the|in the))\b",
    r"\b(?:teacher|annotator|author|examiner|grader|solver|expert)(?:'s|’s|s)? (?:own )?(?:sheet|notes?|marks?"
    r"|comments?"
    r"|solution|answer|wrote|marked|key)\b",
    rf"\b(?:in|inside) the (?:{RIGHT} |{GIVEN} )*answer\b(?! (?:sheet|box|line|choice|option|space))",
    r"\b(?:what|which|as) the (?:prompt|key|answer|solution|reference|task|teacher|user|hint) (?:has|had|says|said"
    r"|gives|gave"
    r"|states|tells|wants|shows|expects|requires|claims)\b(?! to know)",
    r"\b(?:from|per|in|by|see|like|as in|same as|equals|=) (?:the )?(?:task|prompt|GT|hint|instructions?"
    r"|metadata)\b(?! bar)",
    r"\b(?:match(?:es|ing)?|agree(?:s|ing)? with|consistent with|fits?|equals?|same as|confirms?) what (?:is|was"
    r"|we are|we"
    r" were|I was|I am|they) (?:expected?|given|stated|said|told|say|provided|want\w*|supposed|known)\b",
    rf"(?:\b(?:is|are|equals)|[=:]),? (?:just )?as (?:given|stated|told|expected|indicated|provided|specified"
    rf"|required|known),? "
    rf"(?:an? |the )?{GOLD}",
    # somebody knows it or was told
    rf"\b(?:I|we|you|one)(?:['’]ve| have)?(?: of course| do)? already (?:know|knew|have|established|see|been told"
    rf"|given)\b[^.;=]{{0,40}}{GOLD}",
    rf"\b(?:I|we|you|who|one)(?: already| do| of course)? (?:know|knew)(?: that)?(?: the)?(?: {RIGHT})? (?:{ANSWER}"
    rf"|(?:{RIGHT} )(?:{CHOSEN}|count|value))(?! to (?:the|part)|,? then| (?:lies|must))",
    rf"\b(?:knowing|aware|accepting|granting) (?:that |beforehand )?[^.;,=]{{0,40}}\b(?:(?:is|are|equals|to be|of)"
    rf"|\w+['’]s)"
    rf" (?:an? |the )?{GOLD}",
    rf"\balready (?:knowing|aware|told|informed)\b|\bthe known \w+ (?:= |is |of )?{GOLD}",
    rf"\bthey (?:already )?(?:tell|told|gave|give|say|said|want)\b[^.;]{{0,30}}{GOLD}",
    rf"\b(?:I|we|me|us)(?:['’]m| am| was| are|['’]re| were|['’]ve been| have been| had been| got)?(?: already| just"
    rf"| also)? (?:told|informed|notified|instructed|advised|assured)\b[^.;]{{0,50}}(?<!\w =)(?<!\w = ){GOLD}",
    rf"\b(?:{CHOSEN}|number|value|letter|name|count|one|thing),? (?:that |which )?(?:{BE} )?(?:already )?"
    r"(?:provided|given|told|supplied|handed|passed|shown|disclosed|communicated|revealed|announced) (?:on )?to (?:me"
    r"|us)\b",
    rf"\b(?:{CHOSEN}|one|number|value|count) (?:that )?(?:I|we) (?:was|were|am|are|have been|had been) (?:told|given"
    rf"|shown|handed|supplied|provided)\b",
    rf"\b(?:established|confirmed|settled|decided|determined|agreed|fixed) (?:already |beforehand |in advance"
    rf" )?that {GOLD} is (?:the )?(?:{RIGHT}|answer)",
    rf"(?<!= ){GOLD}(?: \w+)?,? (?:just )?as (?:was )?(?:stated|given|told|indicated|provided|instructed|specified"
    rf"|expected|known|said|required|needed|desired|wanted|demanded)\b(?! (?:in|on|by|at) )",
    rf"\b(?:know|knew) (?:that )?{GOLD} (?:is|are|to be) (?:the )?{RIGHT}",
    r"\b(?:answer|number|value|count|result|option) (?:that )?(?:the )?(?:user|prompt|teacher|task|key|annotator)"
    r" (?:expects?|expected"
    r"|gave|gives|stated|states|mentioned|provided|has|supplied)\b",
    # what was found agrees with it
    rf"\b(?:match(?:es|ing|ed)?|agree(?:s|d|ing)?|agreement|consistent|coincid(?:es|e|ing)|in line|fits?|fitting"
    rf"|align(?:s|ed|ing)?|tall(?:y|ies)|compatible|accord(?:s|ance)|same as|identical|conform(?:s|ing)?|squares?"
    rf"|checks? out|corroborat\w+|lines? up|agrees?|reconcil\w+|confirm\w*)(?: well| exactly| perfectly| nicely| up)*"
    rf"(?: with| to| against| as)? (?:the |what the )(?:{RIGHT} |{GIVEN} )*(?:{SOURCE}|solution{NO_OBJECT}"
    r"|key|reference|ground[ -]truth)\b(?![ -](?:of|image|line|point|picture|figure|pattern|shape|frame|found|obtained"
    r"|set|we (?:found|got|obtained)|above|to\b))",
    rf"\b(?:match(?:es|ing|ed)?|agree(?:s|d|ing)? with|consistent with|coincid(?:es|e|ing) with|in line with"
    rf"|close(?:r)? to|differ(?:s|ent)? from|fit(?:s|ting)? with|align(?:s|ed|ing)? with|(?:same|identical) (?:as"
    rf"|to)) the (?:{RIGHT} )?answer"
    rf"(?! (?:choice|option|found|above|we (?:found|got)|I (?:found|got)|{GOLD}))\b",
    rf"\b(?:match(?:es|ing|ed)?|agree(?:s|d|ing)?|consistent|coincid(?:es|e|ing)|in line|fit(?:s|ting)?|align(?:s|ed"
    rf"|ing)?|equals?|same as|confirms?|verif(?:y|ies)|supports?)(?: with| to)? (?:the |this |that )(?:{GIVEN}) "
    rf"(?:{CHOSEN}|{OUTCOME})\b",
    # it is what the text aims at
    r"\b(?:find|come up with|give|need|construct|reconstruct|write|produce|provide|invent|think of|make up|want"
    r"|build|create"
    r"|deliver|supply|fabricate|offer) (?:an?|the|some|my|our) (?:\w+ )?(?:reasons?|reasoning|explanation"
    r"|justification|rationale"
    r"|argument|derivation|evidence|story)\b(?:\W*$|,? (?:for|why|behind|that (?:leads|supports|ends|gives"
    r"|fits))\b|: )",
    rf"\b(?:what|which|that) (?:I|we) (?:must|have to|need to|needed to|should|am to|are to|was asked to|were asked"
    rf" to|want to) "
    rf"(?:{JUSTIFY}|{END_UP}|get|obtain|match)\b",
    r"\b(?:value|number|result|answer|one|count|what) (?:that )?(?:we|I|they) (?:were|was|are|am|['’]re) (?:hoping"
    r" for|after"
    r"|aiming (?:for|at)|heading (?:for|to)|supposed to|told|expecting)\b",
    rf"\b(?:way|ways|how|possible|try|need|want|reason) to (?:get|obtain|reach|arrive at|end (?:up )?(?:with|in))"
    rf" {WHAT}{GOLD}",
    rf"{GOLD} is (?:the \w+ )?(?:that )?(?:what|which)? ?(?:I|we|they) (?:was|were|am|are|want|have|need)\b",
    rf"\b(?:I|we|you|it|this|that|which|steps?|reasoning|count|sum|total|calculation|everything)\b[^.;,]{{0,12}} "
    rf"{MODAL} (?:somehow |still |then |also )?{END_UP} {WHAT}(?:\w{{1,2}} = )?{GOLD}(?! to \w)",
    rf"(?:^|, |so )(?:in order )?to (?:reach|arrive at|end up with|end up at|land on) {WHAT}{GOLD}[^.;]{{0,12}}(?:,"
    rf"| (?:I|we|you|one|it)\b)",
    rf"\b(?:explain|justify|rationali[sz]e|support|defend|prove|show|argue|motivate|demonstrate|see|understand|clear)"
    rf" (?:why|how|that)?[^.;]{{0,15}}\b(?:{ANSWER}|{RIGHT} (?:{CHOSEN}|one))[^.;]{{0,12}} (?:is |are |=|as )?"
    rf"(?:in fact |indeed )?{GOLD}",
    rf"\b(?:I|we|us|me|job|task|goal|aim|role|purpose|asked|need|have|must|should)\b[^.;]{{0,20}}\b{JUSTIFY}"
    rf"(?: (?:why|that|how))?(?: the| this)?[^.;,=]{{0,30}}{GOLD}",
    rf"\b{JUSTIFY} (?:why )?(?:the |this |our )?(?:(?:{GIVEN} |{RIGHT} )+(?:{CHOSEN})\b|(?:{CHOSEN})(?: of|,|"
    rf" being)? {GOLD})",
    rf"\b(?:work|working|worked|reason|reasoning|go|going|start|starting|derive|deriv\w+) (?:back(?:wards?)? )?from "
    rf"(?:the )?(?:(?:{RIGHT}|{GIVEN}) )*(?:{ANSWER}|{CHOSEN},? {GOLD})",
    rf"\bback(?:wards?)? from (?:the )?(?:value |number )?{GOLD}",
    r"\b(?:reverse[- ]engineer|retro-?fit|reason towards|steer (?:it|this|the reasoning) to)\w*\b",
    rf"\b(?:reasoning|explanation|steps?|argument|derivation|justification|chain of thought|thinking|all|"
    rf"everything)\b[^.]{{0,30}}\b(?:leads?|ends?|ending|leading|lands?|points?|concludes?|concluding|finish\w*"
    rf"|results?|resulting) (?:up )?(?:to|at|with|on|in) (?:the )?(?:{RIGHT} )?(?:{CHOSEN} (?:of )?)?{GOLD}\W*$",
    rf"\b(?:let me|let['’]s|let us|need to|have to|must|should|to)\b (?:make sure|ensure|see to it|arrange|check)\b"
    rf"[^.;]{{0,40}}\b(?:leads?|comes?|gives?|yields?|ends?|results?|arrives?|works?)\b[^.;]{{0,12}}{GOLD}",
    rf"\b{MODAL} (?:somehow )?(?:turn out|come out|end up|land on|lead to|arrive at)\b[^.;,]{{0,12}}{GOLD}",
    rf"\b(?:since|as|because) (?:we|I) (?:need|want|must|should|have to|are after|are looking"
    rf" for)\b[^.;,=]{{0,15}}{GOLD}",
    rf"\b(?:reasoning|explanation|argument|derivation|justification|chain of thought|steps) (?:must|should|has to"
    rf"|have to|needs? to|will)"
    rf"\b[^.;]{{0,30}}{GOLD}",
    rf"\b(?:I|we|they|you)(?:['’]d)? (?:want|wanted|expect|expected|like|hope for) [^.;,=◆]{{1,25}} to (?:be|equal"
    rf"|total|{END_UP}|come out) {WHAT}{GOLD}(?! to \w)",
    # something is inferred from it
    rf"\b(?:since|as|because|knowing(?: that)?|given(?: that)?|assuming(?: that)?|provided that|seeing(?: that)?"
    rf"|supposing(?: that)?|considering(?: that)?|now that|accepting(?: that)?|if|assume(?: that)?|with|suppose(?: that"
    rf")?)(?: we know(?: that)?)? (?:the |our )?(?:{RIGHT} )?{CHOSEN}(?: here)?(?:,? (?:is|was|should be|must be"
    rf"|has to be|needs to be|equals|reads|being|says|to be|of)|:)? (?:that )?{GOLD}",
    rf"\b(?:since|as|because|knowing(?: that)?|given(?: that)?|assuming(?: that)?|seeing(?: that)?|with) {GOLD} (?:is"
    rf"|has to be|must be|being) (?:the )?(?:{RIGHT}|answer|{GIVEN} (?!to\b|as\b|for\b|by\b|in\b|on\b))",
    rf"\b(?:since|as|because|given(?: that)?) [^.;,◆]{{1,25}}(?:=|\b(?:is|equals|being|of)\b) ?{GOLD} (?:is|being) "
    rf"(?:the )?(?:{RIGHT}|{GIVEN}) (?:{CHOSEN}|{OUTCOME})\b",
    rf"\b{ANSWER} (?:is|says|being|was) {GOLD}[^.;]{{0,4}}, (?:so|thus|hence|therefore|which means"
    rf"|meaning)\b[^.]{{0,80}}"
    r"\b(?:must|should|probably|presumably|may|might|missed|hidden|need|have to|has to|overlooked)\b",
    rf"\b(?:but|however|yet|though|although|while)\b[^.;◆]{{0,20}}\b{RIGHT} {CHOSEN}(?: here)? (?:is|says|reads|was)"
    rf" {GOLD}(?:,? (?:so|thus|hence|therefore|meaning|and so)\b|,? which (?:means|implies|suggests|tells)\b)",
    rf"\b(?:but|however|yet|though|although|hmm|still|nevertheless|whereas|while)\b(?:(?!\b(?:so|since|because"
    rf"|hence)\b|=)"
    rf"[^.;◆]){{0,45}}\b(?:should|supposed|expected|told|says|said|meant|has to|must|claims?|states?|gives)\b"
    rf"(?:(?!\b(?:so|since|because|hence)\b|=)[^.;◆]){{0,25}}{GOLD}",
    rf"\b(?:{ANSWER}|{OUTCOME})(?: here)? (?:should|must|ha(?:s|ve) to|ought to|(?:is|was) (?:supposed|meant|said)"
    rf" to) be {GOLD},? (?:though|however|nevertheless)\b",
    rf"\b{ANSWER},? (?:though|however|nevertheless),? (?:is|says|was|reads) {GOLD}",
    # its writer hides it
    r"\b(?:I|I['’]ll|I['’]d|we|to|should|must) pretend\b|\bas if (?:I|we) (?:did|do|had|have)(?:n['’]t| not) (?:know"
    r"|known|been|seen)\b",
)
