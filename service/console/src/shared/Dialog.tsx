import { t } from "@lingui/core/macro";
import { CloseButton, Group, Modal } from "@mantine/core";
import type { ReactNode } from "react";

// Above Mantine's dialogs (200), below its notifications (400).
const ABOVE = 300;

/** A modal without the library's <header>, which would be a second banner of the page. */
export function Dialog({
  opened,
  onClose,
  title,
  size = "md",
  above = false,
  children,
}: {
  opened: boolean;
  onClose: () => void;
  title: string;
  size?: string;
  /** True: this dialog is shown above another dialog. */
  above?: boolean;
  children: ReactNode;
}) {
  return (
    <Modal.Root opened={opened} onClose={onClose} size={size} centered {...(above ? { zIndex: ABOVE } : {})}>
      <Modal.Overlay />
      <Modal.Content>
        <Modal.Body pt="md">
          <Group justify="space-between" align="flex-start" wrap="nowrap" mb="md">
            <Modal.Title fw={600} lh={1.4} pt={4} className="name">
              {title}
            </Modal.Title>
            <CloseButton aria-label={t`Close`} onClick={onClose} />
          </Group>
          {children}
        </Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}

/** A dialog's buttons, the act last. On a phone they fill the width, in one row or above each other. */
export function DialogButtons({ children }: { children: ReactNode }) {
  return (
    <Group justify="flex-end" wrap="wrap-reverse" className="dialog-buttons">
      {children}
    </Group>
  );
}
