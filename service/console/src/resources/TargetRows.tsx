import { msg, t } from "@lingui/core/macro";
import { Select, TextInput } from "@mantine/core";

import { sayOptions } from "../locale/language";
import { FormRows, type Holder } from "../shared/FormRows";
import { hasPorts, NO_TARGET, type TargetRow } from "./target";

const PROTOCOLS = [
  { value: "any", label: msg`All protocols` },
  { value: "tcp", label: "TCP" },
  { value: "udp", label: "UDP" },
  { value: "icmp", label: "ICMP" },
];

/** Addresses, each with a protocol and ports. */
export function TargetRows({
  form,
  path,
  rows,
  atLeast,
  of = "",
}: {
  form: Holder<TargetRow>;
  path: string;
  rows: readonly TargetRow[];
  atLeast?: number;
  of?: string;
}) {
  return (
    <FormRows
      form={form}
      path={path}
      rows={rows}
      {...(atLeast !== undefined && { atLeast })}
      one={t`address`}
      of={of}
      blank={NO_TARGET}
      add={rows.length > 0 ? t`Another address` : t`Add an address`}
      isLabelled
    >
      {(target, at) => (
        <>
          <TextInput
            {...(at === 0 && { label: t`Address or prefix` })}
            aria-label={t`Address or prefix ${at + 1}` + of}
            placeholder="10.20.0.10"
            required
            flex={2}
            miw={132}
            {...form.getInputProps(`${path}.${at}.prefix`)}
          />
          <Select
            {...(at === 0 && { label: t`Protocol` })}
            aria-label={t`Protocol ${at + 1}` + of}
            data={sayOptions(PROTOCOLS)}
            allowDeselect={false}
            w={152}
            {...form.getInputProps(`${path}.${at}.protocol`)}
          />
          {hasPorts(target) && (
            <TextInput
              {...(at === 0 && { label: t`Ports` })}
              aria-label={t`Ports ${at + 1}` + of}
              placeholder={t`All, or 443, 8000-8100`}
              flex={1}
              miw={160}
              {...form.getInputProps(`${path}.${at}.ports`)}
            />
          )}
        </>
      )}
    </FormRows>
  );
}
