// The token lives as long as the browser tab.
const KEY = 'lockstep.token';
export const savedToken = () => sessionStorage.getItem(KEY);
export const saveToken = (token: string) => sessionStorage.setItem(KEY, token);
export const forgetToken = () => sessionStorage.removeItem(KEY);
