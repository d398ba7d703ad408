// RFC 6040 section 4.2: the inner DSCP stays; congestion met on the way outside is handed in.

control EcnOut(inout metadata_t meta) {
    apply {
        bit<2> outer = meta.outer_tos[1:0];
        bit<2> inner = meta.tos[1:0];
        if (outer == 3 && inner == 0) {
            meta.drop_cause = Drop.ECN;
        } else if (outer == 3 || (outer == 1 && inner == 2)) {
            meta.tos = meta.tos[7:2] ++ outer;
        }
    }
}
