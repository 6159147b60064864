"""The REST service and the web page of a Tagger. In: HTTP requests. Out: labels, explanations, pages.

A request passes `security` (checks, limits), its endpoint in `routes`, `batching`, and the Tagger of
`state`. `processes` starts the worker processes, each of which runs `worker` with the app of `app`.
"""
