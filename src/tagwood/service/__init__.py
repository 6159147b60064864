"""The REST service and the web page over a Tagger. In: HTTP requests. Out: labels, reasons, pages.

Order of the modules: settings; schemas (what comes and goes); problems, bodies, limits, guard (what is refused);
loaded, gathering, label_index, label_query, group_review (what is
known); journal, telemetry, logs (what is written down); routes; openapi; app (one worker); worker, supervisor (many).
"""
