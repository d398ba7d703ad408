/** Creates a deleted resource again, with its policies. */
import { api, tagged } from "../api/client";
import { ProblemError } from "../api/problem";
import { written } from "../policies/form";
import type { Policy } from "../policies/queries";
import { formOf, resourceOf } from "./form";
import type { Resource, ResourceIn } from "./queries";

export async function restored(found: Resource, policies: readonly Policy[]): Promise<void> {
  const resource: ResourceIn = { ...resourceOf(formOf(found), found), users: [] };
  // The policies restore the resource's people below.
  await api.POST("/api/v1/resources", { body: resource });
  for (const policy of policies) await ledBack(policy, resource.name);
}

/** A policy with other resources still exists, and may have changed meanwhile. */
async function ledBack(policy: Policy, resource: string): Promise<void> {
  const path = { name: policy.name };
  try {
    const { row, etag } = tagged(await api.GET("/api/v1/policies/{name}", { params: { path } }));
    await api.PUT("/api/v1/policies/{name}", {
      params: { path, header: { "if-match": etag } },
      body: { ...written(row), resources: [...row.resources, resource] },
    });
  } catch (error) {
    if (!(error instanceof ProblemError) || error.reason !== "NOT_FOUND") throw error;
    await api.POST("/api/v1/policies", { body: written({ ...policy, resources: [resource] }) });
  }
}
