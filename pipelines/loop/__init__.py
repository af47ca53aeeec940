"""Runs curation, training and evaluation as one command that can be resumed: ``beam loop``.

:mod:`groundtrace.pipelines.loop.questions` divides the questions into those to train on and those to evaluate on.
:mod:`groundtrace.pipelines.loop.run` then runs the steps of :mod:`groundtrace.pipelines.loop.steps` one after the
other, each in a process of its own. :mod:`groundtrace.pipelines.loop.story` writes a page with the results.
"""
