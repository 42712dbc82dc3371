"""How a running daemon is talked to: a Unix socket in its state directory.

``protocol`` has the requests and replies as frozen values and ``codec`` turns them into JSON;
``server`` lets peers in and carries lines, ``handlers`` answers requests from the engine and the
service, ``submissions`` takes in tasks; ``client`` is the other side, with ``batches`` (tasks on
their way) and ``waiting`` (how long, and when to ask again). One JSON object per line goes each
way.

Only the superuser and the daemon's own user are let in: the socket's mode says so, and the
kernel's word on who the peer is (SO_PEERCRED, unix(7)) says it again. Whatever a peer sends, the
worst that happens is an error reply; whatever it does not send, it holds up nobody else. Nothing
here is on the way of a job: an engine without a control socket runs jobs all the same.
"""
