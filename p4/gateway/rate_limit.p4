// Rate limits for packets that strangers can provoke: a virtual-scheduling GCRA (ITU-T I.371), one cell a kind of sender.
//
// interval: microseconds a unit. span: how far ahead of it a burst may run, (burst - 1) * interval.

control RateLimit(in bit<48> now, in bit<32> cell, out bit<1> allowed)(bit<32> cells, bit<48> interval, bit<48> span) {
    register<bit<48>>(cells) due;
    bit<48> at;

    apply {
        due.read(at, cell);
        if (at < now) {
            at = now;
        }
        allowed = 0;
        if (at - now <= span) {
            allowed = 1;
            due.write(cell, at + interval);
        }
    }
}
