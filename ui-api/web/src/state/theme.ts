// Dark or light: the system's wish, until the reader says otherwise.
import { useEffect, useState } from 'react';

export type Theme = 'light' | 'dark';
const KEY = 'lockstep.theme';
const wish = window.matchMedia('(prefers-color-scheme: dark)');

const systemTheme = (): Theme => (wish.matches ? 'dark' : 'light');
const chosenTheme = (): Theme | null => {
  const value = localStorage.getItem(KEY);
  return value === 'dark' || value === 'light' ? value : null;
};

export function applyTheme(theme: Theme = chosenTheme() ?? systemTheme()) {
  document.documentElement.classList.toggle('pf-v6-theme-dark', theme === 'dark');
  document.documentElement.style.colorScheme = theme;
}

export function useTheme(): [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(chosenTheme() ?? systemTheme());
  useEffect(() => {
    const follow = () => setTheme(chosenTheme() ?? systemTheme());
    wish.addEventListener('change', follow);
    return () => wish.removeEventListener('change', follow);
  }, []);
  useEffect(() => applyTheme(theme), [theme]);
  const toggle = () => {
    const next: Theme = theme === 'dark' ? 'light' : 'dark';
    // Back at what the system wants: follow it again from here on.
    if (next === systemTheme()) localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, next);
    setTheme(next);
  };
  return [theme, toggle];
}
