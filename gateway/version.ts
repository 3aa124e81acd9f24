/** The release. `package.json` says the same; a test holds the two together. */
export const VERSION = '0.1.0';
