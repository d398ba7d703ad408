//! The sluice P4 software switch: ports and P4Runtime around sluice-pipeline.
