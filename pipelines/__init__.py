"""One DAG a file, and the beam command that runs it."""

if __name__ != "groundtrace.pipelines":  # as where a script has the repository's top on its path
    raise ImportError("import it as groundtrace.pipelines: under a second name its classes would be other classes")
