/** The limits of an SA, near one of which its keys are renewed, as forms have them. Pure. */

export interface RekeyForm {
  soft_seconds: number;
  soft_packets: number;
  soft_bytes: number;
}

/** The controller's own limits. */
export const NEW_REKEY: RekeyForm = { soft_seconds: 3600, soft_packets: 0, soft_bytes: 2 ** 36 };

/** The paths of the fields, beside which faults are shown. */
export const REKEY_FIELDS = ["rekey", ...Object.keys(NEW_REKEY).map((field) => `rekey.${field}`)];
