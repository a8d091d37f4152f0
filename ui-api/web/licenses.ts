// The licences of everything that the bundle holds, as a file beside it: their texts ask to go wherever the code goes.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Plugin } from 'vite';

const TEXTS = /^(licen[cs]e|copying|notice)/i;

/** The package that a module belongs to: the nearest folder above with a package.json that has a version. */
function packageOf(module: string): string | null {
  for (let folder = dirname(module); folder.includes('node_modules'); folder = dirname(folder)) {
    const file = join(folder, 'package.json');
    if (existsSync(file) && JSON.parse(readFileSync(file, 'utf8')).version) return folder;
  }
  return null;
}

function entry(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const texts = readdirSync(folder).filter((file) => TEXTS.test(file)).map((file) => readFileSync(join(folder, file), 'utf8').trim());
  if (!license && texts.length === 0) throw new Error(`${name} has no licence: it can't be bundled`);
  return [`${name} ${version}: ${license}`, ...texts].join('\n\n');
}

export function licenses(fileName: string): Plugin {
  return {
    name: 'licenses',
    generateBundle() {
      const folders = new Set<string>();
      for (const id of this.getModuleIds()) {
        const folder = packageOf(id.replace(/^\0/, '').split('?')[0]);
        if (folder) folders.add(folder);
      }
      if (folders.size === 0) this.error('no package was found in the bundle');
      const source = [...folders].sort().map(entry).join(`\n\n${'-'.repeat(79)}\n\n`);
      this.emitFile({ type: 'asset', fileName, source: `${source}\n` });
    },
  };
}
