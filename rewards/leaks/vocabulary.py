"""The English vocabularies of leak signs: who gives, what is given, what is said of it and what is aimed at.

In every pattern ``◆`` stands for the gold answer in any of its writings (:mod:`rewards.leaks.finding` puts it there).
"""

GOLD = "◆"

GIVEN = (
    r"(?:given|provided|supplied|stated|specified|expected|desired|official|reference|gold(?:en|[ -]standard)?|target"
    r"|ground[ -]truth|annotated|known|pre-?determined|prescribed|suggested|indicated|required|intended|labell?ed"
    r"|listed|announced|established|published|recorded|documented|disclosed|revealed|attached|included|accepted"
    r"|agreed|authoritative|validated|verified|confirmed|wanted|designated|teacher['’]?s|model|user['’]?s"
    r"|dataset['’]?s)"
)
AFTER = (
    r"(?:given|provided|supplied|stated|specified|known|available|disclosed|revealed|shown|handed|indicated|announced"
    r"|listed|told|attached|included|settled|fixed|there|on record|in hand|at hand)"
)
RIGHT = r"(?:correct|right|true|final|actual|proper|real)"
BE = r"(?:is|was|are|were|has been|have been|had been|being|to be)"
NO_OBJECT = (
    r"(?![ -](?:choices?|options?|sets?|sheets?|scales?|formats?|lines?|box|boxes|key|categor|field|cards?|of\b|in\b"
    r"|contain|concentration|volume|has\b|must be (?:positive|negative|an?\b)))"
)
ANSWER = rf"(?:answer|solution|response|reply|verdict|ground[ -]truth){NO_OBJECT}\b"
CHOSEN = r"(?:answer|solution|response|reply|result|label|option|choice|pick|selection)"
WANTED = r"(?:provided|supplied|expected|desired|wanted|intended|predetermined|prescribed)"
CAUSE = (
    r"(?:since|as|because|for|considering(?: that)?|given(?: that)?|seeing(?: that)?|knowing(?: that)?|now that"
    r"|assuming(?: that)?|accepting(?: that)?|provided that|supposing(?: that)?)"
)
GUIDE = (
    r"(?:(?:(?<=the )|(?<=my )|(?<=your )|(?<=this )|(?<=given )|^)guidance(?! (?:counsel|office|system"
    r"|sign|board|line))|answer keys?|solution keys?|mark(?:ing)? schemes?|model answers?|solutions? manual"
    r"|(?:gold(?:en)?|reference|official|ground[ -]truth) (?:answer|solution|label|standard)s?|ground[ -]truths?)"
)
OUTCOME = r"(?:result|value|outcome|output|number|count|total|figure|reading|number|quantity)"
IN_PICTURE = (
    r"(?![^.,;:◆]{0,45}\b(?:by (?!the (?:user|prompt|task|question|teacher|annot|data))|image|picture|figure|chart"
    r"|graph|diagram|photo|table|axis|scene|board|blackboard|card"
    r"|sign|caption|text|sheet|legend|heart|general|common|above|below|directly|visually|visible|log"
    r"|(?:on|in|at|inside) (?:top|(?:the|its|this|that)(?! (?:prompt|task|question|instruction|hint|answer|metadata"
    r"|data)))|from general"
    r")\b)"
)
MODAL = (
    r"(?:must|should|ha(?:s|ve) to|had to|needs? to|needed to|ought to|(?:is|are|am|was|['’]m|['’]re) (?:supposed"
    r"|meant|required"
    r"|expected|bound|known|said|told|asked|instructed) to|(?:want|aim|try|trying|like|hope|have got)s? (?:it )?to"
    r"|got to)"
)
END_UP = (
    r"(?:arrive at|reach|get to|end (?:up )?(?:with|at|as|in|on)|come (?:out )?(?:to|as|at)|land (?:on|at)|lead to"
    r"|turn out (?:to be|as)|work out (?:to|as)|conclude (?:with|that)?|say|answer(?: with)?|report)"
)
MAKE = (
    r"(?:be|equal|give|yield|make|get|obtain|total|show|produce|find|derive|deduce|explain|select|choose|pick"
    r"|result in|match|fit)"
)
WHAT = (
    r"(?:exactly |only |a total of |up to |the |an? |that (?:it|this|there) (?:is|are) )?(?:(?:value|number|count"
    r"|answer|result|total|conclusion)(?: of)? )?"
)
JUSTIFY = (
    r"(?:justify|rationali[sz]e|explain|support|defend|back up|prove|motivate|argue for|show|demonstrate|reason"
    r" toward(?:s)?)"
)
TELLS = (
    r"(?:tells?|told|says?|said|states?|stated|mentions?|mentioned|informs?|informed|indicates?|indicated|gives?|gave"
    r"|reads?|lists?|listed|has(?! to\b)|shows?"
    r"|specif(?:y|ies|ied)|points? (?:to|at)|confirms?|records?|puts?|wants?|requires?"
    r"|expects?|provides?|provided|supplied|supplies|wrote)"
)
SOURCE = (
    r"(?:hints?|answer keys?|(?:answer|solution) sheets?|official (?:answer|solution)s?|keys|model answers?|metadata"
    r"|ground[ -]truths?|reference (?:answer|solution|list|label)s?|references?(?! (?:lines?|image|point|frame"
    r"|picture|figure|value|angle|shape"
    r"|pattern|object|level|bar|color))|gold(?:en)? (?:answer|label|standard)s?"
    r"|data ?sets?|solutions? manual|mark(?:ing)? scheme|prompts?|instructions?|annotators?|graders?|examiners?"
    r"|task descriptions?|system message|guidance|GT|(?:answer|solution|label) (?:text|field|column|entry|tag|slot"
    r"|section))"
)
