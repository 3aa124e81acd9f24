/** What `earshot/policy` offers: the plain rules, for those who hold something else to them. */
export * from './audience.ts';
export * from './canonical.ts';
export * from './clearance.ts';
export * from './explanation.ts';
export * from './fact.ts';
export * from './floor.ts';
export * from './identity.ts';
export * from './instant.ts';
export * from './mode.ts';
export * from './reader.ts';
export * from './refusal.ts';
export * from './scope.ts';
export * from './sequence.ts';
export * from './session-id.ts';
export * from './world.ts';
