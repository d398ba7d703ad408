import { t } from "@lingui/core/macro";
import { ActionIcon, type ActionIconProps } from "@mantine/core";
import { IconUser } from "@tabler/icons-react";
import type { ComponentProps } from "react";

export function AccountButton({
  name,
  ...rest
}: { name: string } & ActionIconProps & ComponentProps<"button">) {
  return (
    <ActionIcon
      variant="default"
      size="lg"
      aria-haspopup="menu"
      {...rest}
      aria-label={t`Signed in as ${name}`}
    >
      <IconUser size={18} />
    </ActionIcon>
  );
}
