-- What was delivered lately, by queue, and the lag from the publish call to the stored confirmation, in seconds.
-- Takes    $1 seconds, $2 the most pages of the archive to read.
select l.queue, l.deliveries, l.half, l.most, l.longest
from holdfast.delivered_lately($1, $2) l
order by l.queue
