-- Visits of a web site, made of its clicks: a visit ends when its visitor has not clicked for half an hour.
--
-- tidelog up
-- tidelog pipeline run examples/pipelines/visits.sql
-- tidelog consume visits --follow

/* pipeline
name = "visits"

[[source]]
topic = "clicks"
decode = { format = "json", schema = "visitor string, page string, at timestamp" }
watermark = { column = "at", delay = "5 minutes" }
dead_letters = "clicks.broken"
expect = { "somebody has clicked" = "visitor IS NOT NULL" }

[[sink]]
to = "topic"
topic = "visits"
key = "visitor"
*/

SELECT
    visitor,
    min(at) AS began,
    max(at) AS last_click,
    count(*) AS clicks,
    min_by(page, at) AS came_to,
    max_by(page, at) AS left_from
FROM clicks
GROUP BY visitor, session_window(at, '30 minutes');
